/**
 * CityHash128 in the version (1.0.2) that ClickHouse's compressed frames carry as their checksum. Algorithm: Google CityHash 1.0.2.
 * 64-bit numbers are pairs of 32-bit halves: BigInt arithmetic runs at 13 MB/s, this at more than 200. A function that yields such a pair returns
 * the low half and leaves the high half in `high`, since a pair object per step would cost more than the step.
 */
let high = 0;

const K0 = [0xc3a5c85c | 0, 0x97cb3127 | 0] as const;
const K1 = [0xb492b66f | 0, 0xbe98f273 | 0] as const;
const K2 = [0x9ae16a3b | 0, 0x2f90404f | 0] as const;
const K3 = [0xc949d7c7 | 0, 0x509e6557 | 0] as const;
const KMUL = [0x9ddfea08 | 0, 0xeb382d69 | 0] as const;

function add(ah: number, al: number, bh: number, bl: number): number {
  const low = (al + bl) | 0;
  high = (ah + bh + (low >>> 0 < al >>> 0 ? 1 : 0)) | 0;
  return low;
}

function subtract(ah: number, al: number, bh: number, bl: number): number {
  high = (ah - bh - (al >>> 0 < bl >>> 0 ? 1 : 0)) | 0;
  return (al - bl) | 0;
}

function multiply(ah: number, al: number, bh: number, bl: number): number {
  const a0 = al & 0xffff;
  const a1 = al >>> 16;
  const b0 = bl & 0xffff;
  const b1 = bl >>> 16;
  const p00 = Math.imul(a0, b0) >>> 0;
  const p01 = Math.imul(a0, b1) >>> 0;
  const p10 = Math.imul(a1, b0) >>> 0;
  const middle = (p00 >>> 16) + (p01 & 0xffff) + (p10 & 0xffff);
  high = (Math.imul(a1, b1) + (p01 >>> 16) + (p10 >>> 16) + (middle >>> 16) + Math.imul(ah, bl) + Math.imul(al, bh)) | 0;
  return Math.imul(al, bl);
}

/** Right by 1 to 31, or 33 to 63 bits. */
function rotate(ah: number, al: number, bits: number): number {
  const h = bits > 32 ? al : ah;
  const l = bits > 32 ? ah : al;
  const n = bits & 31;
  high = (h >>> n) | (l << (32 - n));
  return (l >>> n) | (h << (32 - n));
}

/** x xor (x >> 47) */
function shiftMix(ah: number, al: number): number {
  high = ah;
  return al ^ (ah >>> 15);
}

function hashPair(uh: number, ul: number, vh: number, vl: number): number {
  let al = multiply(uh ^ vh, ul ^ vl, KMUL[0], KMUL[1]);
  al = shiftMix(high, al);
  let bl = multiply(vh ^ high, vl ^ al, KMUL[0], KMUL[1]);
  bl = shiftMix(high, bl);
  return multiply(high, bl, KMUL[0], KMUL[1]);
}

/** The 16 bytes that stand before a frame: the low word first, both little-endian. */
export function cityHash128(data: Buffer): Buffer {
  const length = data.length;
  const at = (offset: number): number => data.readInt32LE(offset);
  let words: State;
  if (length >= 16) {
    words = hashWithSeed(data.subarray(16), [at(4) ^ K3[0], at(0) ^ K3[1], at(12), at(8)]);
  } else if (length >= 8) {
    const low = multiply(0, length, K0[0], K0[1]);
    words = hashWithSeed(Buffer.alloc(0), [at(4) ^ high, at(0) ^ low, at(length - 4) ^ K1[0], at(length - 8) ^ K1[1]]);
  } else {
    words = hashWithSeed(data, [K0[0], K0[1], K1[0], K1[1]]);
  }
  const digest = Buffer.allocUnsafe(16);
  digest.writeInt32LE(words[1], 0);
  digest.writeInt32LE(words[0], 4);
  digest.writeInt32LE(words[3], 8);
  digest.writeInt32LE(words[2], 12);
  return digest;
}

/** Two 64-bit words: high and low half of the first, then of the second. */
type State = readonly [number, number, number, number];

function hashWithSeed(data: Buffer, seed: State): State {
  return data.length < 128 ? hashShort(data, seed) : hashLong(data, seed);
}

function hashShort(data: Buffer, [seedAh, seedAl, seedBh, seedBl]: State): State {
  const length = data.length;
  let [ah, al, bh, bl] = [seedAh, seedAl, seedBh, seedBl];
  let ch = 0;
  let cl = 0;
  let dh = 0;
  let dl = 0;
  const mixed = (h: number, l: number): number => {
    const m = multiply(h, l, K1[0], K1[1]);
    const s = shiftMix(high, m);
    return multiply(high, s, K1[0], K1[1]);
  };
  if (length <= 16) {
    al = mixed(ah, al);
    ah = high;
    const tail = hashUpTo16(data);
    const tailHigh = high;
    cl = multiply(bh, bl, K1[0], K1[1]);
    cl = add(high, cl, tailHigh, tail);
    ch = high;
    const inner = length >= 8 ? add(ah, al, data.readInt32LE(4), data.readInt32LE(0)) : add(ah, al, ch, cl);
    dl = shiftMix(high, inner);
    dh = high;
  } else {
    const last = add(data.readInt32LE(length - 4), data.readInt32LE(length - 8), K1[0], K1[1]);
    cl = hashPair(high, last, ah, al);
    ch = high;
    const first = add(bh, bl, 0, length);
    const firstHigh = high;
    const second = add(ch, cl, data.readInt32LE(length - 12), data.readInt32LE(length - 16));
    dl = hashPair(firstHigh, first, high, second);
    dh = high;
    al = add(ah, al, dh, dl);
    ah = high;
    for (let at = 0, left = length - 16; left > 0; at += 16, left -= 16) {
      const one = mixed(data.readInt32LE(at + 4), data.readInt32LE(at));
      al = multiply(ah ^ high, al ^ one, K1[0], K1[1]);
      ah = high;
      bh ^= ah;
      bl ^= al;
      const two = mixed(data.readInt32LE(at + 12), data.readInt32LE(at + 8));
      cl = multiply(ch ^ high, cl ^ two, K1[0], K1[1]);
      ch = high;
      dh ^= ch;
      dl ^= cl;
    }
  }
  al = hashPair(ah, al, ch, cl);
  ah = high;
  bl = hashPair(dh, dl, bh, bl);
  bh = high;
  const second = hashPair(bh, bl, ah, al);
  return [ah ^ bh, al ^ bl, high, second];
}

function hashUpTo16(data: Buffer): number {
  const length = data.length;
  if (length > 8) {
    const bh = data.readInt32LE(length - 4);
    const bl = data.readInt32LE(length - 8);
    const sum = add(bh, bl, 0, length);
    const turned = rotate(high, sum, length);
    const hashed = hashPair(data.readInt32LE(4), data.readInt32LE(0), high, turned);
    high ^= bh;
    return hashed ^ bl;
  }
  if (length >= 4) {
    const a = data.readUInt32LE(0);
    const low = add(a >>> 29, a << 3, 0, length);
    return hashPair(high, low, 0, data.readInt32LE(length - 4));
  }
  if (length > 0) {
    const y = (data[0] as number) + ((data[length >> 1] as number) << 8);
    const z = length + ((data[length - 1] as number) << 2);
    const yl = multiply(0, y, K2[0], K2[1]);
    const yh = high;
    const zl = multiply(0, z, K3[0], K3[1]);
    const mixed = shiftMix(yh ^ high, yl ^ zl);
    return multiply(high, mixed, K2[0], K2[1]);
  }
  high = K2[0];
  return K2[1];
}

/**
 * The state of a long hash, high and low halves in turn: x, y, z, then the pairs v and w. `sub` is what weakHash leaves: a pair.
 */
const state = new Int32Array(14);
const [X, Y, Z, V1, V2, W1, W2] = [0, 2, 4, 6, 8, 10, 12] as const;
const sub = new Int32Array(4);

function hashLong(data: Buffer, seed: State): State {
  const words = new DataView(data.buffer, data.byteOffset, data.byteLength);
  start(words, seed);
  let at = 0;
  for (let left = data.length; left >= 128; left -= 128) {
    round(words, at);
    round(words, at + 64);
    at += 128;
  }
  finishTail(words, at);
  return finish();
}

function put(index: number, low: number): void {
  state[index] = high;
  state[index + 1] = low;
}

function start(words: DataView, [xh, xl, yh, yl]: State): void {
  const word = (at: number): number => words.getInt32(at, true);
  state.set([xh, xl, yh, yl]);
  const zl = multiply(0, words.byteLength, K1[0], K1[1]);
  const zh = high;
  put(Z, zl);
  let t = rotate(yh ^ K1[0], yl ^ K1[1], 49);
  t = multiply(high, t, K1[0], K1[1]);
  t = add(high, t, word(4), word(0));
  put(V1, t);
  t = rotate(high, t, 42);
  t = multiply(high, t, K1[0], K1[1]);
  t = add(high, t, word(12), word(8));
  put(V2, t);
  t = add(yh, yl, zh, zl);
  t = rotate(high, t, 35);
  t = multiply(high, t, K1[0], K1[1]);
  t = add(high, t, xh, xl);
  put(W1, t);
  t = add(xh, xl, word(92), word(88));
  t = rotate(high, t, 53);
  t = multiply(high, t, K1[0], K1[1]);
  put(W2, t);
}

/** 64 bytes at `at`. */
function round(words: DataView, at: number): void {
  const s = state;
  const at16 = words.getInt32(at + 16, true);
  const at48 = words.getInt32(at + 48, true);
  let t = add(s[X] as number, s[X + 1] as number, s[Y] as number, s[Y + 1] as number);
  t = add(high, t, s[V1] as number, s[V1 + 1] as number);
  t = add(high, t, words.getInt32(at + 20, true), at16);
  t = rotate(high, t, 37);
  const xl = multiply(high, t, K1[0], K1[1]) ^ (s[W2 + 1] as number);
  const xh = high ^ (s[W2] as number);
  t = add(s[Y] as number, s[Y + 1] as number, s[V2] as number, s[V2 + 1] as number);
  t = add(high, t, words.getInt32(at + 52, true), at48);
  t = rotate(high, t, 42);
  const yl = multiply(high, t, K1[0], K1[1]) ^ (s[V1 + 1] as number);
  const yh = high ^ (s[V1] as number);
  const zl = rotate((s[Z] as number) ^ (s[W1] as number), (s[Z + 1] as number) ^ (s[W1 + 1] as number), 33);
  const zh = high;
  const al = multiply(s[V2] as number, s[V2 + 1] as number, K1[0], K1[1]);
  const ah = high;
  const bl = add(xh, xl, s[W1] as number, s[W1 + 1] as number);
  weakHash(words, at, ah, al, high, bl);
  s.set(sub, V1);
  const cl = add(zh, zl, s[W2] as number, s[W2 + 1] as number);
  weakHash(words, at + 32, high, cl, yh, yl);
  s.set(sub, W1);
  // x and z change places.
  s[X] = zh;
  s[X + 1] = zl;
  s[Z] = xh;
  s[Z + 1] = xl;
  s[Y] = yh;
  s[Y + 1] = yl;
}

/** 32 bytes at `at` with two seeds; the pair that results is in `sub`. */
function weakHash(words: DataView, at: number, ah: number, al: number, bh: number, bl: number): void {
  const fl = add(ah, al, words.getInt32(at + 4, true), words.getInt32(at, true));
  const fh = high;
  const lastLow = words.getInt32(at + 24, true);
  const lastHigh = words.getInt32(at + 28, true);
  let sl = add(bh, bl, fh, fl);
  sl = add(high, sl, lastHigh, lastLow);
  sl = rotate(high, sl, 21);
  const sh = high;
  let gl = add(fh, fl, words.getInt32(at + 12, true), words.getInt32(at + 8, true));
  gl = add(high, gl, words.getInt32(at + 20, true), words.getInt32(at + 16, true));
  const gh = high;
  const turned = rotate(gh, gl, 44);
  sl = add(sh, sl, high, turned);
  sub[3] = add(high, sl, fh, fl);
  sub[2] = high;
  sub[1] = add(gh, gl, lastHigh, lastLow);
  sub[0] = high;
}

/** The last 0 to 127 bytes, in steps of 32 from the end; a step may reach back into bytes that were hashed already. */
function finishTail(words: DataView, at: number): void {
  const s = state;
  let t = rotate(s[W1] as number, s[W1 + 1] as number, 37);
  t = multiply(high, t, K0[0], K0[1]);
  t = add(high, t, s[Z] as number, s[Z + 1] as number);
  t = add(s[Y] as number, s[Y + 1] as number, high, t);
  put(Y, t);
  t = add(s[V1] as number, s[V1 + 1] as number, s[Z] as number, s[Z + 1] as number);
  t = rotate(high, t, 49);
  t = multiply(high, t, K0[0], K0[1]);
  t = add(s[X] as number, s[X + 1] as number, high, t);
  put(X, t);
  for (let done = 32; done - 32 < words.byteLength - at; done += 32) {
    const from = words.byteLength - done;
    t = subtract(s[Y] as number, s[Y + 1] as number, s[X] as number, s[X + 1] as number);
    t = rotate(high, t, 42);
    t = multiply(high, t, K0[0], K0[1]);
    t = add(high, t, s[V2] as number, s[V2 + 1] as number);
    put(Y, t);
    t = add(s[W1] as number, s[W1 + 1] as number, words.getInt32(from + 20, true), words.getInt32(from + 16, true));
    put(W1, t);
    t = rotate(s[X] as number, s[X + 1] as number, 49);
    t = multiply(high, t, K0[0], K0[1]);
    t = add(high, t, s[W1] as number, s[W1 + 1] as number);
    put(X, t);
    t = add(s[W1] as number, s[W1 + 1] as number, s[V1] as number, s[V1 + 1] as number);
    put(W1, t);
    weakHash(words, from, s[V1] as number, s[V1 + 1] as number, s[V2] as number, s[V2 + 1] as number);
    s.set(sub, V1);
  }
}

function finish(): State {
  const s = state;
  const xl = hashPair(s[X] as number, s[X + 1] as number, s[V1] as number, s[V1 + 1] as number);
  const xh = high;
  const yl = hashPair(s[Y] as number, s[Y + 1] as number, s[W1] as number, s[W1 + 1] as number);
  const yh = high;
  let t = add(xh, xl, s[V2] as number, s[V2 + 1] as number);
  t = hashPair(high, t, s[W2] as number, s[W2 + 1] as number);
  const firstLow = add(high, t, yh, yl);
  const firstHigh = high;
  const sl = add(xh, xl, s[W2] as number, s[W2 + 1] as number);
  const sh = high;
  const ul = add(yh, yl, s[V2] as number, s[V2 + 1] as number);
  const secondLow = hashPair(sh, sl, high, ul);
  return [firstHigh, firstLow, high, secondLow];
}
