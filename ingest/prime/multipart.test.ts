import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isTapedeckError } from '../../base/errors.ts';
import { boundaryOf, MAX_PART_HEADER_BYTES, MAX_PARTS, multipartParts } from './multipart.ts';
import { BOUNDARY, multipart } from './upload-under-test.ts';

async function* pieces(body: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let at = 0, i = 0; at < body.length; i++) {
    const size = sizes[i % sizes.length] as number;
    yield body.subarray(at, at + size);
    at += size;
  }
}

type Read = { name: string; headers: Record<string, string>; content: string };
async function read(body: Buffer, sizes: readonly number[] = [1 << 16], boundary = BOUNDARY): Promise<Read[]> {
  const found: Read[] = [];
  for await (const part of multipartParts(pieces(body, sizes), boundary)) {
    const content: Buffer[] = [];
    for await (const piece of part.bytes) content.push(Buffer.from(piece));
    found.push({ name: part.name, headers: Object.fromEntries(part.headers), content: Buffer.concat(content).toString('latin1') });
  }
  return found;
}

async function refusal(body: Buffer | string, sizes?: readonly number[]): Promise<string> {
  try {
    await read(Buffer.from(body), sizes);
  } catch (error) {
    if (isTapedeckError(error, 'malformed_encoding')) return error.message;
    throw error;
  }
  return 'none';
}

const disposition = (name: string): string => `Content-Disposition: form-data; name="${name}"`;

test('any parts come back whole, in whatever pieces the body arrives', async () => {
  // contents full of what looks like boundaries
  const scrap = fc.constantFrom('\r\n', '--', `\r\n--${BOUNDARY}`.slice(0, -1), BOUNDARY.slice(0, 5), 'x', '\0', '\r', `--${BOUNDARY}`);
  const content = fc.array(scrap, { maxLength: 12 }).map((parts) => parts.join('')).filter((text) => !text.includes(`\r\n--${BOUNDARY}`)); // prettier-ignore
  const contents = fc.array(content, { minLength: 1, maxLength: 4 });
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(contents, sizes, async (texts, cut) => {
      // a content that begins with the boundary itself would be one
      const safe = texts.map((text) => (text.startsWith(`--${BOUNDARY}`) ? `.${text}` : text));
      const body = multipart(safe.map((text, i) => [`${disposition(`p${i}`)}\r\nX-N: ${i}`, Buffer.from(text, 'latin1')] as const));
      const found = await read(body, cut);
      assert.deepEqual(found.map(({ content }) => content), safe); // prettier-ignore
      assert.deepEqual(found.map(({ name, headers }) => [name, headers['x-n']]), safe.map((_, i) => [`p${i}`, String(i)])); // prettier-ignore
    }),
    { numRuns: 300 },
  );
});

test('what is not read of a part is skipped; preamble, padding and epilogue are none of the content', async () => {
  const body = `hello\r\n--${BOUNDARY}  \r\n${disposition('a')}\r\n\r\nskipped\r\n--${BOUNDARY}\r\n${disposition('b')}; filename="x \\" y"\r\n\r\nread\r\n--${BOUNDARY}--\r\nepilogue`;
  const names: string[] = [];
  for await (const part of multipartParts(pieces(Buffer.from(body), [3]), BOUNDARY)) names.push(part.name);
  assert.deepEqual(names, ['a', 'b']);
});

test('every cut of a good body is refused, and so is everything that is no multipart body', async () => {
  const body = multipart([
    [disposition('a'), 'one'],
    [disposition('b'), ''],
  ]);
  for (let length = 0; length < body.length - 4; length++)
    assert.notEqual(await refusal(body.subarray(0, length), [7]), 'none', `cut at ${length}`);
  assert.equal(await refusal(body), 'none');
  const broken: Record<string, RegExp> = {
    [`--${BOUNDARY}x\r\n`]: /something else than a line end/,
    [`--${BOUNDARY}\r\n\r\nx\r\n--${BOUNDARY}--`]: /no headers/,
    [`--${BOUNDARY}\r\nX: y\r\n\r\nx\r\n--${BOUNDARY}--`]: /no Content-Disposition/,
    [`--${BOUNDARY}\r\n${disposition('a')}\r\nno header\r\n\r\nx\r\n--${BOUNDARY}--`]: /cannot be read/,
    [`--${BOUNDARY}\r\n${disposition('a')}\r\nX: 1\r\nx: 2\r\n\r\nx\r\n--${BOUNDARY}--`]: /twice/,
    [`--${BOUNDARY}\r\n${disposition('a')}\r\nX: ${'y'.repeat(MAX_PART_HEADER_BYTES)}\r\n\r\nx\r\n--${BOUNDARY}--`]:
      /more than 16384 bytes/,
    [multipart(Array.from({ length: MAX_PARTS + 1 }, () => [disposition('a'), ''] as const)).toString()]: /more than 16 parts/,
  };
  for (const [text, pattern] of Object.entries(broken)) {
    assert.match(await refusal(text), pattern);
    assert.match(await refusal(text, [1]), pattern);
  }
});

test('a source that breaks is let go of, and its error goes on', async () => {
  let isReleased = false;
  const source = async function* (): AsyncGenerator<Buffer> {
    try {
      yield Buffer.from(`--${BOUNDARY}\r\n${disposition('a')}\r\n\r\nabc`);
      throw new Error('gone');
    } finally {
      isReleased = true;
    }
  };
  await assert.rejects(async () => {
    for await (const part of multipartParts(source(), BOUNDARY)) for await (const _ of part.bytes);
  }, /gone/);
  assert.ok(isReleased);
});

test('the boundary is read from the Content-Type, quoted or not', () => {
  assert.equal(boundaryOf('multipart/form-data; boundary=abc'), 'abc');
  assert.equal(boundaryOf('Multipart/Form-Data; charset=x; boundary="a b"; y=1'), 'a b');
  for (const type of [
    undefined,
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/mixed; boundary=a',
  ])
    assert.throws(() => boundaryOf(type), { code: 'unsupported_media_type' });
});
