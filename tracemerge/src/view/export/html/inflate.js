// Unpacks a column of the page: it is deflated and in base64. The page and its workers use this.
"use strict";

async function inflate(base64) {
  if (base64 === "") return new Uint8Array(0);
  const packed = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(base64)
    : Uint8Array.from(atob(base64), character => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
