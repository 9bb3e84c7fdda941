import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { canonicalRequest, type Fields } from '../request/canonical-request.ts';
import { compileNormalisers, DEFAULT_NORMALISERS, type Normaliser } from '../request/normalise.ts';
import { createMatcher, type Asked, type Matched } from './matcher.ts';
import type { RecordedCall } from './recorded-call.ts';

const chat = (content: string, more: Fields = {}): Fields => ({ model: 'm', messages: [{ role: 'user', content }], ...more });

function call(index: number, request: Fields, more: Partial<RecordedCall> = {}): RecordedCall {
  const answer = { status: 200, headers: {}, pieces: [], ending: 'complete', isExact: true } as const;
  const rest = {
    trace: 't',
    dialect: 'openai.chat',
    missing: null,
    matchedBy: 'request' as const,
    streamed: null,
    start: index,
    retryOf: null,
    isGood: true,
    limit: null,
    node: null,
    model: 'm',
  };
  return { index, request: canonicalRequest(request), answer, ...rest, ...more };
}

function asked(request: Fields, more: Partial<Asked> = {}): Asked {
  return { dialect: 'openai.chat', request: canonicalRequest(request), trace: null, isRetry: false, ...more };
}

const matcher = (calls: readonly RecordedCall[], normalisers: readonly Normaliser[] = DEFAULT_NORMALISERS, liveTools = false) =>
  createMatcher(calls, { rules: compileNormalisers(normalisers), liveTools });
const indexOf = (found: Matched): number | null => ('call' in found ? found.call.index : null);

describe('any order', () => {
  /** Few different prompts, so that equal ones are common. */
  const prompts = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 12 });

  test('of parallel calls is served fully: each call once, equal ones lowest first', () => {
    const cases = prompts.chain(
      (contents) =>
      fc.tuple(fc.constant(contents), fc.shuffledSubarray(contents.map((_, i) => i), { minLength: contents.length })), // prettier-ignore
    );
    fc.assert(
      fc.property(cases, ([contents, order]) => {
        const tape = matcher(contents.map((content, i) => call(i, chat(`prompt ${content}`))));
        const served = order.map((i) => {
          const found = tape.match(asked(chat(`prompt ${contents[i] as number}`)));
          assert.equal(found.kind, 'match');
          return { content: contents[i] as number, index: indexOf(found) as number };
        });
        assert.equal(new Set(served.map(({ index }) => index)).size, contents.length);
        for (const { content, index } of served) assert.equal(contents[index], content);
        for (const content of new Set(contents)) {
          const mine = served.filter((each) => each.content === content).map(({ index }) => index);
          assert.deepEqual(
            mine,
            mine.toSorted((a, b) => a - b),
          );
        }
        assert.deepEqual(tape.unserved, []);
        assert.equal(tape.match(asked(chat('prompt 0'))).kind, 'exhausted');
      }),
      { numRuns: 500 },
    );
  });

  test('of requests, some of them foreign: no call is served twice, and none to a request that it did not answer', () => {
    fc.assert(
      fc.property(prompts, fc.array(fc.integer({ min: 0, max: 7 }), { maxLength: 24 }), (contents, requests) => {
        const tape = matcher(contents.map((content, i) => call(i, chat(`prompt ${content}`))), []); // prettier-ignore
        const served: number[] = [];
        for (const content of requests) {
          const found = tape.match(asked(chat(`prompt ${content}`)));
          if (found.kind === 'match') {
            assert.equal(contents[found.call.index], content);
            served.push(found.call.index);
          } else {
            const left = contents.filter((each, i) => each === content && !served.includes(i));
            assert.deepEqual(left, [], 'an unserved call fits');
          }
        }
        assert.equal(new Set(served).size, served.length);
      }),
      { numRuns: 500 },
    );
  });

  test('members in another order, other spacing of tool arguments, hints and nulls are the same request', () => {
    const recorded = {
      model: 'm',
      user: 'a',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] },
        {
          role: 'assistant',
          refusal: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a": 1.0, "b": 2}' } }],
        },
      ],
    };
    const live = {
      messages: [
        { content: 'hi', role: 'user' },
        { tool_calls: [{ function: { arguments: '{"b":2,"a":1}', name: 'f' }, type: 'function', id: 'c' }], role: 'assistant' },
      ],
      metadata: { request: 9 },
      model: 'm',
      temperature: null,
    };
    assert.equal(matcher([call(0, recorded)]).match(asked(live)).kind, 'match');
    assert.equal(matcher([call(0, recorded)]).match(asked({ ...live, temperature: 0 })).kind, 'divergence');
    assert.equal(matcher([call(0, recorded)]).match(asked(live, { dialect: 'anthropic.messages' })).kind, 'divergence');
  });

  test('integers beyond 2^53, lone surrogates and keys like __proto__ count', () => {
    const odd = (seed: bigint): Fields => ({ ...chat('\ud800 '), seed, ['__proto__x']: { a: 1 } });
    assert.equal(matcher([call(0, odd(2n ** 60n))]).match(asked(odd(2n ** 60n))).kind, 'match');
    assert.equal(matcher([call(0, odd(2n ** 60n))]).match(asked(odd(2n ** 60n + 1n))).kind, 'divergence');
  });
});

describe('drift', () => {
  const dated = (date: string): Fields =>
    chat(`Today is ${date}. Files are in /tmp/run-${date.length}x/a.txt of 0198c0de-0000-7000-8000-00000000d00${date.at(-1) ?? ''}.`);

  test('dates, temporary paths and ids are benign, and named', () => {
    const found = matcher([call(0, dated('2026-11-30'))]).match(asked(dated('2027-01-02')));
    assert.equal(found.kind, 'drift');
    assert.deepEqual(found.kind === 'drift' && found.drifts.map(({ path, rules }) => [path, rules]), [
      ['messages[0].content', ['dates', 'ids']],
    ]);
  });

  test('in any order: each finds its own call', () => {
    const tape = matcher([call(0, chat('2026-11-30 a')), call(1, chat('2026-11-30 b'))]);
    assert.deepEqual([tape.match(asked(chat('2027-01-01 b'))), tape.match(asked(chat('2027-01-01 a')))].map((found) => [found.kind, indexOf(found)]), [['drift', 1], ['drift', 0]]); // prettier-ignore
  });

  test('an exact match is preferred to drift', () => {
    const tape = matcher([call(0, chat('2026-11-30')), call(1, chat('2027-01-01'))]);
    assert.deepEqual(
      [tape.match(asked(chat('2027-01-01')))].map((found) => [found.kind, indexOf(found)]),
      [['match', 1]],
    );
  });

  test('rules of your own: a path, a pattern, both', () => {
    const rules: Normaliser[] = [
      { name: 'seed', path: 'seed' },
      { name: 'port', path: 'messages[*].content', pattern: ':\\d{4,5}\\b' },
      { name: 'schema', path: '**.description' },
    ];
    const ask = (seed: number, port: number, description: string): Fields =>
      chat(`on localhost:${port}`, { seed, tools: [{ function: { description } }] });
    const found = matcher([call(0, ask(1, 8000, 'a'))], rules).match(asked(ask(2, 9000, 'b')));
    assert.deepEqual(found.kind === 'drift' && found.drifts.map(({ path, rules: by }) => [path, by]), [
      ['messages[0].content', ['port']],
      ['seed', ['seed']],
      ['tools[0].function.description', ['schema']],
    ]);
    for (const bad of [
      { name: 'x', pattern: '(' },
      { name: 'x', path: 'a..b' },
      { name: 'x', path: '' },
    ]) {
      assert.throws(() => compileNormalisers([bad]), { code: 'usage' });
    }
  });
});

describe('divergence', () => {
  const diverged = (recorded: Fields, live: Fields) => {
    const found = matcher([call(0, recorded)]).match(asked(live));
    assert.equal(found.kind, 'divergence');
    return found.kind === 'divergence' ? found.difference : null;
  };

  test('one changed character anywhere is found at its exact place, whatever drifts before it', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }).filter((each) => !/\d/.test(each));
    fc.assert(
      fc.property(text, fc.nat(), (prompt, where) => {
        const points = Array.from(`It is 2026-11-30. ${prompt}`);
        const at = 18 + (where % (points.length - 18));
        const live = Array.from(`It is 2027-01-05. ${prompt}`);
        live[at] = points[at] === 'q' ? 'w' : 'q';
        const found = diverged(chat(points.join('')), chat(live.join('')));
        assert.deepEqual([found?.path, found?.at], ['messages[0].content', { unit: 'character', index: at }]);
      }),
      { numRuns: 500 },
    );
  });

  test('characters are code points: a pair is never cut', () => {
    const found = diverged(chat('a\u{1f937}b'), chat('a\u{1f936}b'));
    assert.deepEqual(found, {
      path: 'messages[0].content',
      at: { unit: 'character', index: 1 },
      recorded: '"a\u{1f937}b"',
      live: '"a\u{1f936}b"',
    });
    const lists = diverged({ stop: '\u{1f937}' }, { stop: '\u{1f936}' });
    assert.equal(lists?.at?.index, 0);
  });

  test('a token, a missing member, a missing message, another type', () => {
    const tokens = (ids: number[]): Fields => ({ input_ids: ids });
    assert.deepEqual(diverged(tokens([1, 2, 3, 4]), tokens([1, 2, 9, 4])), {
      path: 'input_ids',
      at: { unit: 'token', index: 2 },
      recorded: '[1, 2, 3, 4] of 4',
      live: '[1, 2, 9, 4] of 4',
    });
    assert.deepEqual(diverged(tokens([1, 2]), tokens([1, 2, 3]))?.at, { unit: 'token', index: 2 });
    assert.deepEqual(diverged(chat('a', { top_p: 1 }), chat('a')), { path: 'top_p', at: null, recorded: '1', live: null });
    assert.deepEqual(diverged(chat('a'), { model: 'm', messages: [] })?.path, 'messages[0]');
    assert.deepEqual(diverged(chat('a', { stop: 'x' }), chat('a', { stop: ['x'] })), {
      path: 'stop',
      at: null,
      recorded: '"x"',
      live: '["x"]',
    });
    assert.deepEqual(diverged(chat('a', { 'odd key': 1 }), chat('a', { 'odd key': 2 }))?.path, '["odd key"]');
  });

  test('uses nothing up: the call is still there for its own request', () => {
    const tape = matcher([call(0, chat('a'))]);
    assert.equal(tape.match(asked(chat('b'))).kind, 'divergence');
    assert.equal(tape.match(asked(chat('a'))).kind, 'match');
  });

  test('a call without a recorded request is compared with, and never matched', () => {
    const tape = matcher([call(0, {}, { request: null, missing: 'its request is not recorded' })]);
    assert.equal(tape.match(asked(chat('a'))).kind, 'divergence');
  });
});

describe('traces and repetitions', () => {
  test('a named trace is served from its own calls only', () => {
    const tape = matcher([call(0, chat('a'), { trace: 'one' }), call(0, chat('a'), { trace: 'two' })]);
    const found = tape.match(asked(chat('a'), { trace: 'two' }));
    assert.equal(found.kind === 'match' && found.call.trace, 'two');
    assert.equal(tape.match(asked(chat('a'), { trace: 'two' })).kind, 'exhausted');
    assert.equal(tape.match(asked(chat('a'))).kind, 'match');
  });

  test('a retry of a whole answer gets it again; of a failed one the next; without a retry mark each is a call', () => {
    const failed = { isGood: false };
    const tape = matcher([call(0, chat('a'), failed), call(1, chat('a'), { retryOf: 0 }), call(2, chat('a'))]);
    const kinds = [false, true, true, false, true].map((isRetry) => tape.match(asked(chat('a'), { isRetry })));
    assert.deepEqual(kinds.map((found) => [found.kind, indexOf(found)]), [['match', 0], ['match', 1], ['again', 1], ['match', 2], ['again', 2]]); // prettier-ignore
  });

  test('a limit that was reached is named when the calls are used up', () => {
    const tape = matcher([call(0, chat('a')), call(1, chat('b'), { limit: 'max_turns', isGood: false })]);
    tape.match(asked(chat('a')));
    tape.match(asked(chat('b')));
    const found = tape.match(asked(chat('c')));
    assert.equal(found.kind === 'exhausted' && found.limit?.limit, 'max_turns');
  });
});

describe('live tools', () => {
  const turn = (results: Record<string, string>): Fields =>
    chat('go', {
      messages: [
        { role: 'user', content: 'go' },
        {
          role: 'assistant',
          tool_calls: Object.keys(results).map((id) => ({ id, type: 'function', function: { name: `tool_${id}`, arguments: '{}' } })),
        },
        ...Object.entries(results).map(([id, content]) => ({ role: 'tool', tool_call_id: id, content })),
      ],
    });

  test('other results are no divergence; each is compared', () => {
    const found = matcher([call(0, turn({ a: '4 files', b: 'ok' }))], DEFAULT_NORMALISERS, true).match(
      asked(turn({ a: '5 files', b: 'ok' })),
    );
    assert.equal(found.kind, 'match');
    assert.deepEqual(
      found.kind === 'match' &&
        found.tools.map(({ toolCallId, name, difference }) => [toolCallId, name, difference?.at?.index ?? null, difference?.live ?? null]),
      [
        ['a', 'tool_a', 0, '"5 files"'],
        ['b', 'tool_b', null, null],
      ],
    );
    assert.equal(matcher([call(0, turn({ a: '4' }))]).match(asked(turn({ a: '5' }))).kind, 'divergence');
  });

  test('anthropic and responses carry them in other places', () => {
    const anthropic = (content: string): Fields => ({ messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'ls', input: {} }, { type: 'text', text: 'x' }] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content }, { type: 'text', text: 'on' }] }] }); // prettier-ignore
    const responses = (output: string): Fields => ({ input: [{ type: 'function_call', call_id: 'a', name: 'ls', arguments: '{}' }, { type: 'function_call_output', call_id: 'a', output }] }); // prettier-ignore
    for (const make of [anthropic, responses]) {
      const found = matcher([call(0, make('one'))], [], true).match(asked(make('two')));
      assert.deepEqual(found.kind === 'match' && found.tools.map(({ name, difference }) => [name, difference?.recorded]), [
        ['ls', '"one"'],
      ]);
    }
  });
});
