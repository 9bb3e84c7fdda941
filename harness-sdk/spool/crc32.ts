/** CRC-32 (the one of gzip), native where the runtime has it (Node 20.15 and later), else by table. */
import * as zlib from 'node:zlib';

type Crc32 = (data: Uint8Array, start?: number) => number;

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** `start` is the checksum of what came before. */
export function crc32ByTable(data: Uint8Array, start = 0): number {
  let c = ~start;
  for (let i = 0; i < data.length; i++) c = (TABLE[(c ^ (data[i] as number)) & 0xff] as number) ^ (c >>> 8);
  return ~c >>> 0;
}

export const crc32: Crc32 = (zlib as { crc32?: Crc32 }).crc32 ?? crc32ByTable;
