/** The graph against its rules in plain words, over random conversations: same nodes, token identity, and the same graph from the log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkEvent } from '../../../events/check.ts';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import type { DataOf } from '../../../events/registry.ts';
import { checkIdentity } from './check-identity.ts';
import { conversation, steps } from './conversation.arbitrary.ts';
import type { Exchange, ExchangePlan } from './exchange.ts';
import { nodeEvents, type NodeEvent } from './node-events.ts';
import { planExchange } from './plan-exchange.ts';
import { asReference, bestOf, matchesOf, referenceNodes, type ReferenceNode } from './reference-graph.arbitrary.ts';
import { applyEvent, applyNodes, emptyGraph, pathTo, type TraceGraph } from './trace-graph.ts';
import { PRINT_WORDS } from './message-print.ts';

const RUNS = 250;

/** What a graph holds, without its spare room. */
function contentOf(graph: TraceGraph): Record<string, unknown> {
  const { count, used, answers, firstRoot, roleNames, rootTools } = graph;
  const upTo = (array: ArrayLike<number>, length = count): number[] => Array.from({ length }, (_, i) => array[i] as number);
  return {
    count, used, answers, firstRoot, roleNames, rootTools: [...rootTools],
    parents: upTo(graph.parents), firstChild: upTo(graph.firstChild), nextSibling: upTo(graph.nextSibling), roles: upTo(graph.roles),
    flags: upTo(graph.flags), prints: upTo(graph.prints, count * PRINT_WORDS), starts: upTo(graph.starts), lengths: upTo(graph.lengths),
    unsampled: upTo(graph.unsampled), pathIds: upTo(graph.pathIds), depths: upTo(graph.depths), times: upTo(graph.times), ids: upTo(graph.ids, used),
  }; // prettier-ignore
}

function take(graph: TraceGraph, exchange: Exchange): ExchangePlan {
  const plan = planExchange(graph, exchange);
  applyNodes(graph, plan.nodes);
  return plan;
}

/** What a log gives back for an event. */
function throughLog({ time, data }: NodeEvent, serial: number): { time: number; data: DataOf<'node.appended'> } {
  const id = `019b0e8c-7a00-7000-8000-${serial.toString(16).padStart(12, '0')}`;
  const envelope = { v: 1, id, type: 'node.appended', project: 'default', run: 'r', rollout: 'r/1', trace: 'r/1/t', time, data };
  const decoded = decodeCbor(encodeEvent(envelope)) as { time: number; data: DataOf<'node.appended'> };
  const checked = checkEvent(decoded);
  assert.ok(checked.ok, checked.ok ? '' : checked.error.message);
  return decoded;
}

test('the nodes are those of the rules, and every answer holds prompt + completion', () => {
  fc.assert(
    fc.property(steps, (script) => {
      const graph = emptyGraph();
      const reference: ReferenceNode[] = [];
      for (const exchange of conversation(script)) {
        const expected = referenceNodes(reference, exchange);
        const plan = take(graph, exchange);
        assert.deepEqual(plan.nodes.map(asReference), expected);
        reference.push(...expected);
        for (const [i, choice] of exchange.choices.entries()) {
          const node = plan.answers[i]?.node as number;
          if (exchange.promptIds === null || choice.ids === null) continue;
          assert.equal(checkIdentity(graph, node, exchange.promptIds, choice.ids), null);
          const path = pathTo(graph, node).flatMap((at) => reference[at]?.ids ?? []);
          assert.deepEqual(path, [...exchange.promptIds, ...choice.ids]);
        }
      }
    }),
    { numRuns: RUNS },
  );
});

test('where no two siblings match, the walk is the plain one: child by child', () => {
  let compared = 0;
  fc.assert(
    fc.property(steps, (script) => {
      const graph = emptyGraph();
      const reference: ReferenceNode[] = [];
      for (const exchange of conversation(script)) {
        const matches = matchesOf(reference, exchange);
        const isChain = matches.every((a) => matches.every((b) => a.path.every((node, i) => i >= b.path.length || b.path[i] === node)));
        if (isChain && exchange.messages !== null) {
          const longest = matches.reduce((a, b) => (b.path.length > a.path.length ? b : a));
          assert.deepEqual(bestOf(reference, matches, exchange).path, longest.path);
          compared++;
        }
        reference.push(...take(graph, exchange).nodes.map(asReference));
      }
    }),
    { numRuns: RUNS },
  );
  assert.ok(compared > RUNS);
});

test('the events of a trace fold to the same graph, at any cut, and a repeated event changes nothing', () => {
  fc.assert(
    fc.property(steps, fc.nat(), (script, cut) => {
      const exchanges = conversation(script);
      const live = emptyGraph();
      const events: NodeEvent[] = [];
      for (const [call, exchange] of exchanges.entries()) events.push(...nodeEvents(take(live, exchange), { call, policyVersion: 3 }));
      const folded = emptyGraph();
      for (const [serial, event] of events.entries()) assert.equal(applyEvent(folded, throughLog(event, serial)), true);
      for (const event of events) assert.equal(applyEvent(folded, event), false);
      assert.deepEqual(contentOf(folded), contentOf(live));

      // a restart between two calls
      const half = cut % (exchanges.length + 1);
      const before = emptyGraph();
      const stored = exchanges
        .slice(0, half)
        .flatMap((exchange, call) => nodeEvents(take(before, exchange), { call, policyVersion: null }));
      const after = emptyGraph();
      for (const [serial, event] of stored.entries()) applyEvent(after, throughLog(event, serial));
      for (const exchange of exchanges.slice(half)) assert.deepEqual(take(after, exchange), take(before, exchange));
    }),
    { numRuns: RUNS },
  );
});

test('the ladder changes which node holds an id, never the ids of a path', () => {
  fc.assert(
    fc.property(steps, (script) => {
      const [plain, ladder] = [emptyGraph(), emptyGraph()];
      const whole = conversation(script.map((step) => ({ ...step, mode: 'flat' as const })));
      const spanned = conversation(script.map((step) => ({ ...step, mode: 'ladder' as const })));
      const pathOf = (graph: TraceGraph, node: number): number[] =>
        pathTo(graph, node).flatMap((at) => [
          ...graph.ids.subarray(graph.starts[at], (graph.starts[at] as number) + (graph.lengths[at] as number)),
        ]);
      for (const [i, exchange] of whole.entries()) {
        const [a, b] = [take(plain, exchange), take(ladder, spanned[i] as Exchange)];
        for (const [k, { node }] of a.answers.entries()) {
          if (exchange.choices[k]?.ids === null) continue;
          assert.deepEqual(pathOf(ladder, b.answers[k]?.node as number), pathOf(plain, node));
        }
      }
    }),
    { numRuns: RUNS },
  );
});

test('calls of many traces interleaved give the graphs of each trace alone', () => {
  fc.assert(
    fc.property(fc.array(steps, { minLength: 2, maxLength: 4 }), fc.infiniteStream(fc.nat(3)), (scripts, turns) => {
      const traces = scripts.map((script) => ({ todo: conversation(script), graph: emptyGraph(), plans: [] as ExchangePlan[] }));
      const alone = traces.map(({ todo }) => {
        const graph = emptyGraph();
        return { plans: todo.map((exchange) => take(graph, exchange)), graph };
      });
      let left = traces.reduce((sum, { todo }) => sum + todo.length, 0);
      while (left > 0) {
        const open = traces.filter(({ todo, plans }) => plans.length < todo.length);
        const trace = open[(turns.next().value as number) % open.length] as (typeof traces)[number];
        trace.plans.push(take(trace.graph, trace.todo[trace.plans.length] as Exchange));
        left--;
      }
      for (const [i, { graph, plans }] of traces.entries()) {
        assert.deepEqual(plans, alone[i]?.plans);
        assert.deepEqual(contentOf(graph), contentOf(alone[i]?.graph as TraceGraph));
      }
    }),
    { numRuns: Math.ceil(RUNS / 8) },
  );
});
