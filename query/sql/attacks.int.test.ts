import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { ATTACKS } from './fixtures/attacks.ts';
import type { Attack } from './fixtures/attacks.ts';
import { QUESTIONS } from './fixtures/questions.ts';
import { SECRET, startTwoProjects } from './fixtures/two-projects.ts';
import type { Outcome, TwoProjects } from './fixtures/two-projects.ts';

const TIMEOUT_MS = 1_500;
const SYNTAX_ERROR = 62;

/** Groups in which an attempt may be harmless instead of refused, or fail only when it runs. */
const MAY_BE_HARMLESS = new Set(['text that is read twice', 'size and depth', 'parameters', 'forged lines of the syntax tree']);
/** Answers to a bad query. Anything else (internal, store_unavailable, closed) means that the engine or our code broke. */
const EXPECTED_CODES = new Set(['ok', 'sql_refused', 'sql_error', 'bad_request', 'query_timeout', 'result_too_large', 'invalid_utf8']);

let world: TwoProjects;
let untouched: string;
before(async () => {
  world = await startTwoProjects({ timeoutMs: TIMEOUT_MS, memoryBytes: 512 * 1024 * 1024, resultBytes: 16 * 1024 * 1024 });
  untouched = await world.fingerprint();
});
after(async () => world.close());

function filled(text: string): string {
  return text.replaceAll('$FILE', world.secretFile).replaceAll('$OUT', world.outFile);
}

async function attempt({ query, params = {} }: Pick<Attack, 'query' | 'params'>): Promise<Outcome> {
  const given = Object.entries(params).map(([name, value]) => [name, typeof value === 'string' ? filled(value) : value]);
  const outcome = await world.ask(filled(query), { params: Object.fromEntries(given) });
  assert.ok(!outcome.text.includes(SECRET), `the secret came out: ${outcome.text.slice(0, 500)}`);
  assert.ok(EXPECTED_CODES.has(outcome.code), `${outcome.code}: ${outcome.text.slice(0, 500)}`);
  return outcome;
}

test('there are enough attempts', () => assert.ok(ATTACKS.length >= 200, String(ATTACKS.length)));

test('the oracle sees the secret where it may be seen', async () => {
  const rows = await world.store.rows<{ text: string }>('SELECT text FROM p_other.nodes');
  assert.equal(rows[0]?.text, SECRET);
  const read = await world.store.rows<{ text: string }>(`SELECT file('${world.secretFile}') AS text`);
  assert.match(read[0]?.text ?? '', new RegExp(SECRET));
});

for (const [group, attacks] of Map.groupBy(ATTACKS, (attack) => attack.group)) {
  test(`${group}: ${attacks.length} attempts`, async () => {
    for (const attack of attacks) {
      const shown = attack.query.slice(0, 200);
      const outcome = await attempt(attack);
      if (MAY_BE_HARMLESS.has(group)) continue;
      const isRefused = outcome.code === 'sql_refused' || (outcome.code === 'sql_error' && outcome.clickhouseCode === SYNTAX_ERROR);
      assert.ok(isRefused, `not refused: ${shown}\n${outcome.code} ${outcome.text.slice(0, 300)}`);
    }
    assert.equal(await world.fingerprint(), untouched, 'something was written');
  });
}

test('statements mutated at random never let the secret out or write anything', async () => {
  const pieces = [...ATTACKS.map((attack) => attack.query).filter((query) => query.length < 400), ...QUESTIONS].flatMap((query) =>
    query.split(/(?<=[\s(),])/),
  );
  const piece = fc.constantFrom(...pieces, '`', "'", '"', '\\', '\n', ';', '--', '/*', '*/', '(', ')', '$$', '\0', '.', 'p_other.nodes ');
  const base = fc.constantFrom(...QUESTIONS, ...ATTACKS.map((attack) => attack.query).filter((query) => query.length < 400));
  const edit = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), drop: fc.nat(12), insert: piece });
  await fc.assert(
    fc.asyncProperty(base, fc.array(edit, { minLength: 1, maxLength: 4 }), async (query, edits) => {
      let text = query;
      for (const { at, drop, insert } of edits) {
        const start = Math.floor(at * text.length);
        text = text.slice(0, start) + insert + text.slice(start + drop);
      }
      await attempt({ query: text, params: { run: 'run-1', most: 3 } });
      await attempt({ query: text });
    }),
    { numRuns: Number(process.env['TAPEDECK_FUZZ_RUNS'] ?? 120) },
  );
  assert.equal(await world.fingerprint(), untouched, 'something was written');
});
