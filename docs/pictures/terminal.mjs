// Makes an SVG from the screen of a terminal: reads what `tmux capture-pane -e -p` prints. `terminal.mjs COLUMNS <screen >svg`
import { readFileSync } from "node:fs";

const columns = Number(process.argv[2]);
const [cell, line, margin] = [8.43, 17, 12];
const back = "#161616", plain = "#d8d8d8";
// The 16 colours of terminals, as xterm has them by default but for a lighter blue, which is hard to read on black.
const named = [
    "#000000", "#cd3131", "#0dbc79", "#e5e510", "#3b8eea", "#bc3fbc", "#11a8cd", "#e5e5e5",
    "#7f7f7f", "#f14c4c", "#23d18b", "#f5f543", "#6cb6ff", "#d670d6", "#29b8db", "#ffffff",
];

// Returns one of the 256 colours: 16 names, a cube of 6 x 6 x 6, and 24 grays.
function indexed(number) {
    if (number < 16) return named[number];
    if (number >= 232) return gray(8 + 10 * (number - 232));
    const level = (step) => (step === 0 ? 0 : 55 + 40 * step);
    const cube = number - 16;
    return rgb(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}
const rgb = (...parts) => "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
const gray = (level) => rgb(level, level, level);

// Changes a style by the numbers of an escape sequence (ECMA-48, SGR).
function changed(style, numbers) {
    const next = { ...style };
    for (let at = 0; at < numbers.length; at += 1) {
        const number = numbers[at];
        const colour = (number) => (number === 38 || number === 48 ? null : indexed(number));
        if (number === 0) Object.keys(next).forEach((key) => delete next[key]);
        else if (number === 1) next.bold = true;
        else if (number === 2) next.dim = true;
        else if (number === 22) { delete next.bold; delete next.dim; }
        else if (number === 4) next.underlined = true;
        else if (number === 24) delete next.underlined;
        else if (number === 7) next.reversed = true;
        else if (number === 27) delete next.reversed;
        else if (number >= 30 && number <= 37) next.fore = indexed(number - 30);
        else if (number >= 90 && number <= 97) next.fore = indexed(number - 82);
        else if (number >= 40 && number <= 47) next.back = indexed(number - 40);
        else if (number >= 100 && number <= 107) next.back = indexed(number - 92);
        else if (number === 39) delete next.fore;
        else if (number === 49) delete next.back;
        else if (number === 38 || number === 48) {
            const side = number === 38 ? "fore" : "back";
            if (numbers[at + 1] === 5) { next[side] = colour(numbers[at + 2]); at += 2; }
            else { next[side] = rgb(...numbers.slice(at + 2, at + 5)); at += 4; }
        }
    }
    return next;
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const rows = readFileSync(0, "utf8").replace(/\n$/, "").split("\n");
const [width, height] = [Math.ceil(columns * cell + 2 * margin), rows.length * line + 2 * margin];
const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14">`,
    `<rect width="100%" height="100%" rx="6" fill="${back}"/>`,
];
let style = {};
rows.forEach((row, number) => {
    let column = 0;
    const [top, base] = [margin + number * line, margin + number * line + 13];
    // The parts are turns: a text, and the numbers of the escape sequence behind it.
    row.split(/\x1b\[([\d;]*)m/).forEach((part, turn) => {
        if (turn % 2 === 1) {
            style = changed(style, part.split(";").map(Number));
            return;
        }
        const text = part.replace(/\x1b[^m]*|[\x00-\x1f]/g, "");
        const length = [...text].length;
        if (length === 0) return;
        let [fore, behind] = [style.fore ?? plain, style.back];
        if (style.reversed) [fore, behind] = [behind ?? back, fore];
        const x = (margin + column * cell).toFixed(1);
        const size = (length * cell).toFixed(1);
        if (behind) out.push(`<rect x="${x}" y="${top}" width="${size}" height="${line}" fill="${behind}"/>`);
        if (text.trim() !== "") {
            const looks = (style.bold ? ' font-weight="bold"' : "") + (style.dim ? ' opacity="0.6"' : "")
                + (style.underlined ? ' text-decoration="underline"' : "");
            out.push(`<text x="${x}" y="${base}" fill="${fore}"${looks} textLength="${size}" xml:space="preserve">${escaped(text)}</text>`);
        }
        column += length;
    });
});
out.push("</svg>");
console.log(out.join("\n"));
