// Reads a profile with speedscope's own importer, and prints as JSON: the text of its bar, which has the number of
// profiles, and the rows of its table of functions for the first profile. node speedscope.mjs READERS PROFILE
// [PICTURE]

import { join } from 'node:path';
import { withPage } from './browser.mjs';

const [readers, profile, picture] = process.argv.slice(2);
await withPage(readers, join(readers, 'node_modules', 'speedscope', 'dist', 'release'), profile, async (page, address) => {
    const errors = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on('dialog', async (dialog) => {
        errors.push(dialog.message());
        await dialog.dismiss();
    });
    await page.goto(`${address}/#profileURL=${encodeURIComponent(`${address}/trace`)}`);
    const loaded = () => /\(\d+\/\d+\)|Sandwich/.test(document.body.innerText) && !/Loading/.test(document.body.innerText);
    await page.waitForFunction(loaded, { timeout: 60_000 });
    if (picture) {
        // The picture shows the second thread.
        await page.keyboard.press('n');
        await new Promise((resolve) => setTimeout(resolve, 2_000));
        await page.screenshot({ path: picture, clip: { x: 0, y: 0, width: 1200, height: 260 } });
        await page.keyboard.press('p');
    }
    const bar = await page.evaluate(() => document.body.innerText.split('\n').filter(Boolean));
    // The third view is a table of functions.
    await page.keyboard.press('3');
    await page.waitForSelector('table', { timeout: 20_000 });
    const rows = await page.evaluate(() => [...document.querySelectorAll('table tr')].map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
    console.log(JSON.stringify({ errors, bar, rows }));
});
