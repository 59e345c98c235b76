// Opens the page of a trace of examples/bug_hunt where its queue begins to hang, and prints as JSON the messages that it
// shows there: thread and text. node page.mjs READERS PAGE [PICTURE]

import { dirname } from 'node:path';
import { withPage } from './browser.mjs';

const [readers, trace, picture] = process.argv.slice(2);
await withPage(readers, dirname(trace), trace, async (page) => {
    const errors = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.setViewport({ width: 1200, height: 560 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }]);
    await page.goto(`file://${trace}`);
    await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes', { timeout: 60_000 });
    // The last message of the program says that it hangs. Those before it are the last ones of producer and worker.
    await page.keyboard.press('2');
    await page.type('#filter', 'put|take');
    await page.click('#expression');
    await page.waitForFunction(() => Number(document.getElementById('accepted').dataset.value) > 0 && table.accepted !== null);
    const at = await page.evaluate(async () => {
        const rows = await ask({ what: 'rows', numbers: [...table.accepted.slice(-40)] });
        // The worker waits although there is a job, which was not there when it looked.
        const wait = rows.findLastIndex(({ text }) => /^take: [1-9]\d* queued, wait/.test(text));
        const look = rows.findLastIndex(({ text }, at) => at < wait && text === 'take: look');
        const { time } = trace.messages, [from, to] = [time[rows[look].number], time[rows[wait].number]];
        return { look: rows[look].number, wait: rows[wait].number, from, to };
    });
    await page.evaluate(({ from, to }) => {
        show(from - (to - from) * 0.1, to + (to - from) * 0.2);
        setPanelHeight(250);
        showPage(PAGES.find(({ id }) => id === 'swimlanes'));
    }, at);
    await page.evaluate(({ look, wait }) => {
        swimlanes.list.chosen = table.accepted.indexOf(wait);
        swimlanes.list.scrollTo(table.accepted.indexOf(look));
    }, at);
    await page.waitForFunction(() => document.querySelectorAll('#swimlanes .row').length > 3);
    // Away from the rows, which change their colour under the pointer.
    await page.mouse.move(600, 20);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    if (picture) await page.screenshot({ path: picture });
    const shown = await page.evaluate(() => {
        const rows = [...document.querySelectorAll('#swimlanes .row')].map((row) => row.querySelector('.swim').textContent);
        return { rows, lanes: [...document.querySelectorAll('#gutter .name')].map(({ textContent }) => textContent) };
    });
    console.log(JSON.stringify({ errors, ...shown }));
});
