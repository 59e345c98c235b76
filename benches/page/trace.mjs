// Writes a trace like that of a server, always the same: 16 threads, 300 functions, 80 templates of messages. Of ten
// records six enter or leave a function, and four are messages. node trace.mjs DIRECTORY RECORDS

import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';

const [directory, records] = [process.argv[2], Number(process.argv[3])];
const THREADS = 16, BEGIN = 10 ** 12;
let seed = 7;
const random = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
};
const words = 'accept block cache commit decode drain encode fetch flush index insert lookup merge parse queue reply'.split(' ');
const word = () => words[random(words.length)];
const functions = Array.from({ length: 300 }, (_, at) => `app::${words[at % 16]}::${words[(at * 7) % 16]}_${at} at src/${words[at % 16]}.rs:${10 + at}`);
const fields = [() => `id=${random(10 ** (1 + random(8)))}`, () => `${random(10 ** 6)} bytes`, () => `in ${random(10 ** 4)} us`, () => `state ${word()}`];
const templates = Array.from({ length: 80 }, (_, at) => ({ head: `${words[at % 16]} ${words[(at * 3) % 16]}: `, fields: Array.from({ length: 1 + (at % 4) }, () => fields[random(4)]) }));
mkdirSync(directory, { recursive: true });
const key = (ticks, thread) => `${ticks.toString(16).padStart(16, '0')}-${String(100 + thread).padStart(8, '0')}`;
const run = `run version=2 id=0a0b0c0d root=0a0b0c0d pid=100 exe="/srv/app" boot="11111111-2222-3333-4444-555555555555" ticks=${BEGIN} wall=2026-11-21T13:00:00.000000000Z clock=system`;
const table = Array.from({ length: 256 }, (_, byte) => Array.from({ length: 8 }).reduce((sum) => (sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1), byte));
const crc = ~[...Buffer.from(run)].reduce((sum, byte) => table[(sum ^ byte) & 255] ^ (sum >>> 8), ~0) >>> 0;
const threads = Array.from({ length: THREADS }, (_, number) => ({
    file: openSync(`${directory}/app.trace.${100 + number}`, 'w'), open: [], records: 0,
    lines: [`${key(BEGIN, number)} # ${run} check=${crc.toString(16).padStart(8, '0')}\n${key(BEGIN, number)} # thread name="worker-${number}" ring=shared file=${number + 1}\n`],
}));
writeFileSync(`${directory}/app`, '');
let now = BEGIN, number = 0;
for (let record = 0; record < records; record++) {
    if (random(100) < 35) number = random(THREADS);
    now += random(1000) > 0 ? 20 + random(880) : 10 ** 5 + random(10 ** 6);
    const of = threads[number];
    let line;
    if (random(10) < 4) {
        const { head, fields } = templates[random(80)];
        line = `: ${head}${fields.map((field) => field()).join(', ')}`;
    } else if (of.open.length > 0 && (of.open.length >= 9 || random(2) === 0)) {
        line = `< ${of.open.pop()}`;
    } else {
        of.open.push(functions[Math.min(random(300), random(300))]);
        line = `> ${of.open.at(-1)}`;
    }
    of.lines.push(`${key(now, number)} ${line}\n`);
    of.records++;
    if (of.lines.length > 20_000) {
        writeSync(of.file, of.lines.join(''));
        of.lines = [];
    }
}
threads.forEach((of, number) => {
    writeSync(of.file, `${of.lines.join('')}${key(now, number)} # end records=${of.records} lost=0 reason=exit files=${THREADS}\n`);
    closeSync(of.file);
});
