// Opens a page in Chromium without a window, and prints when the overview, the picture and the statistics were there, the
// processor time and the greatest memory of the page's process, and the times between frames while the mouse pans and
// zooms. node open.mjs READERS PAGE

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { withPage } from '../../tracemerge/tests/readers/browser.mjs';

const [readers, trace] = process.argv.slice(2);
await withPage(readers, dirname(trace), trace, async (page) => {
    await page.evaluateOnNewDocument(() => {
        window.seen = {};
        // The page sets them when a picture is drawn: the browser shows it right after that.
        new MutationObserver(() => {
            const { overview, drawn, ready } = document.documentElement.dataset;
            for (const [name, is] of Object.entries({ overview, drawn, ready }))
                if (is === 'yes') seen[name] ??= Math.round(performance.now());
        }).observe(document, { subtree: true, attributeFilter: ['data-overview', 'data-drawn', 'data-ready'] });
    });
    await page.goto(`file://${trace}`, { timeout: 300_000 });
    await page.waitForFunction(() => window.seen?.ready !== undefined, { timeout: 300_000 });
    const system = await page.browser().target().createCDPSession();
    const { processInfo } = await system.send('SystemInfo.getProcessInfo');
    const { id, cpuTime } = processInfo.filter(({ type }) => type === 'renderer').sort((a, b) => b.cpuTime - a.cpuTime)[0];
    const memory = () => Math.round(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))[1] / 1024);
    const times = { ...(await page.evaluate(() => seen)), processor: Math.round(cpuTime * 1000) };
    console.log(`${JSON.stringify(times)} ms, ${memory()} MiB`);

    const frames = async (move) => {
        await page.evaluate(() => {
            window.frames_seen = [];
            let last = performance.now();
            const next = (now) => {
                frames_seen.push(now - last);
                last = now;
                if (frames_seen.length < 10_000) window.next_frame = requestAnimationFrame(next);
            };
            window.next_frame = requestAnimationFrame(next);
        });
        await move();
        const seen = await page.evaluate(() => {
            cancelAnimationFrame(next_frame);
            return frames_seen.slice(2).sort((a, b) => a - b);
        });
        const at = (share) => seen[Math.floor(seen.length * share)]?.toFixed(1);
        return `median ${at(0.5)} ms, 95 % within ${at(0.95)} ms, of ${seen.length} frames`;
    };
    const steps = Array.from({ length: 100 }, (_, step) => step);
    // Events are not awaited one by one: a person does not wait for the picture either.
    const wheel = (by) => Promise.all(steps.map((step) =>
        new Promise((resolve) => setTimeout(resolve, step * 20)).then(() => page.mouse.wheel({ deltaY: by(step) }))));
    await page.mouse.move(700, 250);
    console.log(`zoom: ${await frames(() => wheel((step) => (step < 50 ? -60 : 60)))}`);
    await page.mouse.down();
    console.log(`pan: ${await frames(() => Promise.all(steps.map((step) =>
        new Promise((resolve) => setTimeout(resolve, step * 20)).then(() => page.mouse.move(700 - step * 4, 250)))))}`);
    await page.mouse.up();
});
