import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { crc32, crc32ByTable } from './crc32.ts';
import { readSegment, recordHead, SEGMENT_HEAD, type SpoolRecord } from './segment-codec.ts';

const record = fc.record({
  seq: fc.maxSafeNat(),
  settled: fc.maxSafeNat(),
  payload: fc.uint8Array({ maxLength: 200 }),
});

function segmentOf(records: readonly SpoolRecord[]): Buffer {
  return Buffer.concat([SEGMENT_HEAD, ...records.flatMap(({ seq, settled, payload }) => [recordHead(seq, settled, payload), payload])]);
}

function plain(records: readonly SpoolRecord[]): { seq: number; settled: number; payload: string }[] {
  return records.map(({ seq, settled, payload }) => ({ seq, settled, payload: Buffer.from(payload).toString('hex') }));
}

/** `found` is a subsequence of `written`. */
function isPart(found: readonly SpoolRecord[], written: readonly SpoolRecord[]): boolean {
  const left = plain(written);
  return plain(found).every((each) => {
    const at = left.findIndex(({ seq, settled, payload }) => seq === each.seq && settled === each.settled && payload === each.payload);
    left.splice(0, at + 1);
    return at >= 0;
  });
}

test('both checksums are the CRC-32 of gzip, and go on from one another', () => {
  assert.equal(crc32ByTable(Buffer.from('123456789')), 0xcbf43926);
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (a, b) => {
      const whole = crc32ByTable(Buffer.concat([a, b]));
      assert.equal(crc32ByTable(b, crc32ByTable(a)), whole);
      assert.equal(crc32(b, crc32(a)), whole);
    }),
  );
});

test('what was written is read again', () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 20 }), (records) => {
      const { records: found, damage } = readSegment(segmentOf(records));
      assert.deepEqual(plain(found), plain(records));
      assert.deepEqual(damage, []);
    }),
  );
});

test('a segment that was cut anywhere gives every whole record before the cut, and says how much is torn', () => {
  fc.assert(
    fc.property(fc.array(record, { minLength: 1, maxLength: 10 }), fc.nat(), (records, place) => {
      const whole = segmentOf(records);
      const cut = SEGMENT_HEAD.length + (place % (whole.length - SEGMENT_HEAD.length));
      let at = SEGMENT_HEAD.length;
      const before = records.filter(({ payload }) => (at += 28 + payload.length) <= cut);
      const { records: found, damage } = readSegment(whole.subarray(0, cut));
      assert.deepEqual(plain(found), plain(before));
      const end = segmentOf(before).length;
      assert.deepEqual(damage, end === cut ? [] : [{ at: end, bytes: cut - end, isEnd: true }]);
    }),
  );
});

test('a flipped bit costs the record it hit and no other, and is never taken for data', () => {
  fc.assert(
    fc.property(fc.array(record, { minLength: 1, maxLength: 10 }), fc.nat(), fc.integer({ min: 0, max: 7 }), (records, place, bit) => {
      const file = segmentOf(records);
      const at = SEGMENT_HEAD.length + (place % (file.length - SEGMENT_HEAD.length));
      file[at] = (file[at] as number) ^ (1 << bit);
      const { records: found, damage } = readSegment(file);
      assert.equal(found.length, records.length - 1);
      assert.ok(isPart(found, records));
      assert.equal(damage.length, 1);
    }),
  );
});

test('garbage between records is stepped over; garbage alone gives nothing and ends', () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 6 }), fc.uint8Array({ minLength: 1, maxLength: 100 }), fc.nat(), (records, junk, place) => {
      const at = records.length === 0 ? 0 : place % (records.length + 1);
      const pieces = records.flatMap(({ seq, settled, payload }) => [Buffer.concat([recordHead(seq, settled, payload), payload])]);
      const file = Buffer.concat([SEGMENT_HEAD, ...pieces.slice(0, at), junk, ...pieces.slice(at)]);
      const { records: found, damage } = readSegment(file);
      assert.deepEqual(plain(found), plain(records));
      assert.equal(damage.reduce((sum, { bytes }) => sum + bytes, 0), junk.length); // prettier-ignore
    }),
  );
  fc.assert(fc.property(fc.uint8Array({ maxLength: 500 }), (junk) => void readSegment(junk)));
});

test('a length beyond the file, and a head without its magic, are damage and not a crash', () => {
  const payload = Buffer.from('abc');
  const long = recordHead(1, 0, payload);
  long.writeUInt32LE(0xffff_ffff, 8);
  const { records, damage } = readSegment(Buffer.concat([SEGMENT_HEAD, long, payload]));
  assert.deepEqual(records, []);
  assert.deepEqual(damage, [{ at: 8, bytes: 31, isEnd: true }]);
});
