/** docs/token-graph.md is kept true: its example is run, and its tables name every reason, fault and field there is. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { FORK_REASONS } from '../../../events/node.ts';
import { choiceOf, exchangeOf } from './conversation.arbitrary.ts';
import { PARTS } from './message-print.ts';
import { nodeEvents } from './node-events.ts';
import { assistant, newTrace, record, user } from './recorded-trace.arbitrary.ts';
import type { TokenFault } from './token-faults.ts';

const page = readFileSync(new URL('../../../docs/token-graph.md', import.meta.url), 'utf8');

test('the nodes of the example are those of the page', () => {
  const trace = newTrace();
  const turns = [
    exchangeOf([user('hi')], [1, 2, 3], [choiceOf(assistant('yo'), [4, 5])]),
    exchangeOf([user('hi'), assistant('yo'), user('and?')], [1, 2, 3, 4, 5, 6, 7, 8], [choiceOf(assistant('so'), [9])]),
    exchangeOf([user('hi')], [1, 2, 3], [choiceOf(assistant('hey'), [10])]),
  ];
  const events = turns.flatMap((turn, call) => nodeEvents(record(trace, turn), { call, policyVersion: null }));
  const rows = events.map(({ data }) => {
    const list = (values: Iterable<number> | undefined): string => [...(values ?? [])].join(' ');
    const cells = [data.index, data.parent ?? '', data.role, data.sampled ? 'yes' : 'no', list(data.tokens?.ids.typed()), list(data.tokens?.mask.bytes), data.forkReason ?? '', data.call];
    return `| ${cells.join(' | ')} |`;
  }); // prettier-ignore
  const written = /<!-- example -->\n([\s\S]*?)\n<!-- \/example -->/.exec(page)?.[1]?.split('\n').slice(2);
  assert.deepEqual(written, rows);
});

test('every reason, fault and field is explained', () => {
  const faults: Record<TokenFault, true> = {
    no_token_ids: true, no_prompt_ids: true, no_completion_ids: true, token_id_range: true, logprobs_length: true,
    logprobs_not_finite: true, logprobs_sentinel: true, policy_runs_length: true,
  }; // prettier-ignore
  const names = [...FORK_REASONS.filter((reason) => reason !== 'subagent'), ...Object.keys(faults), ...PARTS]; // subagent: said by links, not by ids
  assert.deepEqual(names.filter((name) => !page.includes(`\`${name}\``)), []); // prettier-ignore
});
