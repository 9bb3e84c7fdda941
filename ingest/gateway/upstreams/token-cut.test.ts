import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutTokens, noTokenData, type Unwanted } from './token-cut.ts';

const ALL: Unwanted = { ids: true, logprobs: true, usage: true, metaInfo: true };

type Choice = { index: number; logprobs?: unknown; token_ids?: number[] | null; [key: string]: unknown };
type Document = { choices?: Choice[]; prompt_token_ids?: number[]; usage?: unknown; [key: string]: unknown };

const text = fc.string({ unit: 'binary', maxLength: 12 });
const free = fc.dictionary(
  text.filter((k) => !['choices', 'prompt_token_ids', 'usage', 'index', 'token_ids', 'logprobs', 'meta_info', '__proto__'].includes(k)),
  fc.jsonValue({ maxDepth: 2 }),
  { maxKeys: 3 },
);
const id = fc.nat(2 ** 31 - 1);
/** JSON.stringify writes -0 as 0. */
const logprob = fc.float({ noNaN: true, noDefaultInfinity: true, max: 0 }).map((p) => p + 0);
const choice = fc
  .record({
    ids: fc.option(fc.array(fc.tuple(id, logprob), { maxLength: 5 })),
    free,
  })
  .map(({ ids, free: rest }) => ({ ids, rest }));

/** Members in any order, with space between them where JSON allows it. */
function write(value: unknown, space: string): string {
  return space === '' ? JSON.stringify(value) : JSON.stringify(value, null, space);
}
function shuffled<T extends object>(value: T, turn: number): T {
  const entries = Object.entries(value);
  const at = entries.length === 0 ? 0 : turn % entries.length;
  return Object.fromEntries([...entries.slice(at), ...entries.slice(0, at)]) as T;
}

test('whatever stands around them, ids and log-probabilities come out and everything else stays', () => {
  fc.assert(
    fc.property(
      fc.array(choice, { maxLength: 3 }),
      free,
      fc.option(fc.array(id, { maxLength: 6 })),
      fc.nat(7),
      fc.constantFrom('', ' ', '\t'),
      (choices, top, prompt, turn, space) => {
        const plain = choices.map(({ rest }, index) => ({ index, ...rest }));
        const document: Document = shuffled(
          {
            ...top,
            choices: choices.map(({ ids, rest }, index) =>
              shuffled<Choice>(
                {
                  index,
                  ...rest,
                  ...(ids === null
                    ? { logprobs: null }
                    : {
                        token_ids: ids.map(([i]) => i),
                        logprobs: {
                          content: ids.map(([i, p]) => ({
                            token: `"],{${i}`,
                            bytes: [1, 2],
                            logprob: p,
                            top_logprobs: [{ logprob: -7, token: 'x' }],
                          })),
                        },
                      }),
                },
                turn,
              ),
            ),
            usage: { completion_tokens: 1 },
            ...(prompt === null ? {} : { prompt_token_ids: prompt }),
          },
          turn,
        );
        const data = noTokenData();
        const cut = cutTokens(write(document, space), ALL, data);
        assert.deepEqual(JSON.parse(cut.shown), {
          ...JSON.parse(JSON.stringify(top)),
          choices: plain.map((c) => ({ ...JSON.parse(JSON.stringify(c)), logprobs: null })),
        });
        assert.deepEqual(JSON.parse(cut.bare).usage, document.usage, 'usage stays for whoever reads the answer');
        assert.deepEqual(data.promptIds?.take() ?? null, prompt === null ? null : Uint32Array.from(prompt));
        assert.equal(data.fault, null);
        for (const [index, { ids }] of choices.entries()) {
          const found = data.choices.get(index);
          if (ids === null) assert.equal(found, undefined);
          else {
            assert.deepEqual(
              found?.ids.take(),
              Uint32Array.from(ids, ([i]) => i),
            );
            assert.deepEqual(
              found?.logprobs.take(),
              Float32Array.from(ids, ([, p]) => p),
            );
          }
        }
      },
    ),
  );
});

test('chunks of one answer add up, choice by choice', () => {
  const data = noTokenData();
  const chunk = (index: number, ids: number[], more = '') =>
    cutTokens(
      `{"choices":[{"index":${index},"delta":{"content":"x"},"token_ids":${JSON.stringify(ids)},"logprobs":{"content":${JSON.stringify(ids.map((i) => ({ logprob: -i })))}}}]${more}}`,
      ALL,
      data,
    );
  chunk(0, [], ',"prompt_token_ids":[7,8]');
  chunk(1, [5]);
  chunk(0, [1, 2], ',"prompt_token_ids":null');
  assert.equal(chunk(0, [3]).added, 1);
  assert.deepEqual(data.promptIds?.take(), Uint32Array.of(7, 8));
  assert.deepEqual(data.choices.get(0)?.ids.take(), Uint32Array.of(1, 2, 3));
  assert.deepEqual(data.choices.get(0)?.logprobs.take(), Float32Array.of(-1, -2, -3));
  assert.deepEqual(data.choices.get(1)?.ids.take(), Uint32Array.of(5));
});

test('what was asked for stays, and only the rest is cut', () => {
  const document =
    '{"id":"a","choices":[{"index":0,"logprobs":{"content":[{"token":"a","logprob":-0.5}]},"token_ids":[1]}],"prompt_token_ids":[2],"usage":{"n":1e400,"big":123456789012345678901}}';
  const shown = (unwanted: Unwanted) => cutTokens(document, unwanted, noTokenData()).shown;
  const none = { ids: false, logprobs: false, usage: false, metaInfo: false };
  assert.equal(shown(none), document);
  assert.equal(
    shown({ ...none, ids: true, usage: true }),
    '{"id":"a","choices":[{"index":0,"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}]}',
  );
  assert.equal(shown({ ...none, logprobs: true }), document.replace(/\{"content":\[.*?\]\}/, 'null'));
  assert.equal(shown(ALL), '{"id":"a","choices":[{"index":0,"logprobs":null}]}');
});

test('a bare NaN, a null and a missing value are NaN; ids that are none are named', () => {
  const data = noTokenData();
  const cut = cutTokens(
    '{"choices":[{"index":0,"logprobs":{"content":[{"logprob":NaN},{"logprob":null},{"token":"x"},null,{"logprob":-9999.0}]},"token_ids":[1,2,3,4,5]}]}',
    ALL,
    data,
  );
  assert.equal(cut.bare, '{"choices":[{"index":0,"logprobs":null}]}');
  assert.deepEqual([...(data.choices.get(0)?.logprobs.take() ?? [])], [NaN, NaN, NaN, NaN, -9999]);
  for (const bad of ['[1.5]', '[-1]', '[4294967296]', '["1"]', '[null]', '"AQID"', '{}', '[1e3]']) {
    const other = noTokenData();
    cutTokens(`{"choices":[{"index":0,"token_ids":${bad}}]}`, ALL, other);
    assert.equal(other.fault, 'token_ids_unreadable', bad);
  }
});

test('the shapes of completions and of SGLang', () => {
  const data = noTokenData();
  cutTokens(
    '{"choices":[{"index":0,"text":"ab","logprobs":{"text_offset":[0,1],"token_logprobs":[-0.5,null],"tokens":["a","b"]},"prompt_token_ids":[9],"token_ids":[1,2]}]}',
    ALL,
    data,
  );
  assert.deepEqual(data.promptIds?.take(), Uint32Array.of(9));
  assert.deepEqual(data.choices.get(0)?.logprobs.take(), Float32Array.of(-0.5, NaN));
  const sglang = noTokenData();
  const cut = cutTokens(
    '{"choices":[{"index":0,"message":{},"logprobs":{"content":[{"logprob":-1},{"logprob":-2}]},"prompt_token_ids":[4,5],"meta_info":{"id":"x","output_token_logprobs":[[-0.25,11,null],[-0.5,12,"b"]]}}]}',
    ALL,
    sglang,
  );
  assert.equal(cut.shown, '{"choices":[{"index":0,"message":{},"logprobs":null}]}');
  assert.deepEqual(sglang.choices.get(0)?.ids.take(), Uint32Array.of(11, 12));
  assert.deepEqual(sglang.choices.get(0)?.logprobs.take(), Float32Array.of(-0.25, -0.5));
});

test('a document that cannot be walked comes back as it came', () => {
  for (const broken of [
    '',
    '[DONE]',
    '{',
    '{"choices":[',
    '{"choices":[{"index":0,"token_ids":[1,',
    '{"a":"\\',
    '{} x',
    '{"a" 1}',
    'null',
    '{"choices":[{"index":0}],}',
  ]) {
    const cut = cutTokens(broken, ALL, noTokenData());
    assert.equal(cut.shown, broken);
    assert.equal(cut.bare, broken);
  }
});
