// Opens pages of readers in a browser without a window, from a server on this machine alone.

import { createReadStream, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.json': 'application/json' };

/** Serves the files of `directory`, and `file` as `/trace`; returns the server's address. */
function serve(directory, file) {
    const server = createServer((request, response) => {
        const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
        const path = name === '/trace' ? file : join(directory, normalize(name === '/' ? '/index.html' : name));
        if (!existsSync(path) || !statSync(path).isFile()) {
            response.writeHead(404).end();
            return;
        }
        response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream', 'Content-Length': statSync(path).size });
        createReadStream(path).pipe(response);
    });
    return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve({ server, address: `http://127.0.0.1:${server.address().port}` })));
}

/** Calls `use` with a page, and the address under which `directory` and `file` are served. `readers` has puppeteer. */
export async function withPage(readers, directory, file, use) {
    const puppeteer = createRequire(join(readers, 'package.json'))('puppeteer-core');
    const profile = mkdtempSync(join(tmpdir(), 'reader-'));
    const { server, address } = await serve(directory, file);
    const browser = await puppeteer.launch({
        executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        userDataDir: profile,
        protocolTimeout: 300_000,
        args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
            '--disable-component-update', '--disable-sync'],
    });
    try {
        const page = await browser.newPage();
        await page.setViewport({ width: 1200, height: 700 });
        await use(page, address);
    } finally {
        await browser.close();
        server.close();
        rmSync(profile, { recursive: true, force: true });
    }
}
