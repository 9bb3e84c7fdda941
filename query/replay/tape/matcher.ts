/**
 * Finds the recorded call that answers a request: by hash among the calls that were not served yet, lowest ordinal first, so that parallel calls may come in any
 * order and equal requests get one answer each. Without one, the request is compared with the next call: the difference is drift that a rule explains, or a divergence. Pure but
 * for what it remembers as served.
 */
import { comparable, conversationOf } from '../request/by-messages.ts';
import { requestHash, type Fields } from '../request/canonical-request.ts';
import { described, differences, type Difference } from '../request/difference.ts';
import { explainedBy, normalised, unexplainedAt, type Rules } from '../request/normalise.ts';
import { cutToolResults } from '../request/tool-results.ts';
import type { RecordedCall } from './recorded-call.ts';

export type Asked = {
  readonly dialect: string;
  /** Canonical. */
  readonly request: Fields;
  /** Only calls of this trace; null = any. */
  readonly trace: string | null;
  /** The client says that it sends a request again. */
  readonly isRetry: boolean;
};

export type Drift = Difference & { readonly rules: readonly string[] };
export type ToolComparison = {
  readonly toolCallId: string;
  readonly name: string | null;
  /** Null: equal. */
  readonly difference: Difference | null;
};

export type Matched =
  | { readonly kind: 'match'; readonly call: RecordedCall; readonly tools: readonly ToolComparison[] }
  /** The request repeats one whose answer was whole: the same answer again, nothing more is used up. */
  | { readonly kind: 'again'; readonly call: RecordedCall }
  | { readonly kind: 'drift'; readonly call: RecordedCall; readonly drifts: readonly Drift[]; readonly tools: readonly ToolComparison[] }
  /** `call` was next and is not used up. */
  | { readonly kind: 'divergence'; readonly call: RecordedCall; readonly difference: Difference }
  /** Nothing is left to compare with; `limit`: the trace ended at it, as the record says. */
  | { readonly kind: 'exhausted'; readonly limit: RecordedCall | null };

export type MatcherOptions = {
  readonly rules: Rules;
  /** Tools run: their results may differ, and are compared. */
  readonly liveTools: boolean;
};

export type Matcher = {
  match(asked: Asked): Matched;
  /** Uses a call up although its request differs. */
  use(call: RecordedCall): void;
  readonly unserved: readonly RecordedCall[];
};

/** In how many places two requests are compared for the report. */
const MANY = 20;

type Form = (request: Fields) => unknown;
/** A request without what may differ where tools run. */
type Bare = (request: Fields) => Fields;
type Layer = {
  readonly form: Form;
  readonly byHash: Map<string, RecordedCall[]>;
  readonly isDrift: boolean;
  readonly matchedBy: RecordedCall['matchedBy'];
};

export function createMatcher(calls: readonly RecordedCall[], { rules, liveTools }: MatcherOptions): Matcher {
  const waiting = new Set(calls);
  const served: { readonly hash: string; readonly call: RecordedCall }[] = [];
  const bare: Bare = liveTools ? (request) => cutToolResults(request).request : (request) => request;
  const layers = layersOf(bare, rules);
  for (const call of calls) {
    if (call.request === null) continue;
    for (const { form, byHash, matchedBy } of layers) {
      if (matchedBy !== call.matchedBy) continue;
      const hash = keyOf(call.dialect ?? '', form(call.request));
      const same = byHash.get(hash);
      if (same === undefined) byHash.set(hash, [call]);
      else same.push(call);
    }
  }
  const use = (call: RecordedCall, hash: string): void => {
    waiting.delete(call);
    served.push({ hash, call });
  };
  const repeated = (asked: Asked, hash: string): RecordedCall | null => {
    if (!asked.isRetry) return null;
    const last = served.findLast((entry) => entry.hash === hash && fits(entry.call, asked));
    return last?.call.isGood === true ? last.call : null;
  };

  const match = (asked: Asked): Matched => {
    const exact = keyOf(asked.dialect, asked.request);
    const again = repeated(asked, exact);
    if (again !== null) return { kind: 'again', call: again };
    for (const { form, byHash, isDrift, matchedBy } of layers) {
      if (byHash.size === 0) continue;
      const agrees = (call: RecordedCall): boolean =>
        matchedBy === 'request' || sameSaid(pairOf(call, asked.request, bare), isDrift ? rules : []);
      const found = byHash
        .get(keyOf(asked.dialect, form(asked.request)))
        ?.find((call) => waiting.has(call) && fits(call, asked) && agrees(call));
      if (found === undefined) continue;
      use(found, exact);
      const tools = liveTools ? comparedTools(found.request as Fields, asked.request) : [];
      if (!isDrift) return { kind: 'match', call: found, tools };
      return { kind: 'drift', call: found, drifts: driftsOf(...pairOf(found, asked.request, bare), rules), tools };
    }
    const next = [...waiting].find((call) => fits(call, asked));
    if (next === undefined) return { kind: 'exhausted', limit: calls.findLast((call) => call.limit !== null && fits(call, asked)) ?? null };
    return { kind: 'divergence', call: next, difference: firstDifference(next, asked, bare, rules) };
  };
  return {
    match,
    use: (call) => use(call, ''),
    get unserved() {
      return calls.filter((call) => waiting.has(call));
    },
  };
}

/** Captured requests by all they hold, rebuilt ones by their conversation; each first as they are, then with what the rules make equal. */
function layersOf(bare: Bare, rules: Rules): Layer[] {
  const said: Bare = (request) => conversationOf(bare(request));
  const of = (matchedBy: RecordedCall['matchedBy'], form: Bare): Layer[] => [
    { form, isDrift: false, byHash: new Map(), matchedBy },
    ...(rules.length === 0
      ? []
      : [{ form: (request: Fields) => normalised(form(request), rules), isDrift: true, byHash: new Map(), matchedBy }]),
  ];
  return [...of('request', bare), ...of('messages', said)];
}

/** The recorded and the live request, as far as they can be compared. */
function pairOf(call: RecordedCall, live: Fields, bare: Bare): readonly [Fields, Fields] {
  const recorded = bare(call.request as Fields);
  return call.matchedBy === 'messages' ? comparable(recorded, bare(live)) : [recorded, bare(live)];
}

function sameSaid([recorded, live]: readonly [Fields, Fields], rules: Rules): boolean {
  return differences(normalised(recorded, rules), normalised(live, rules), 1).length === 0;
}

function fits(call: RecordedCall, { trace }: Asked): boolean {
  return trace === null || call.trace === trace;
}

function keyOf(dialect: string, value: unknown): string {
  return `${dialect} ${requestHash(value)}`;
}

function driftsOf(recorded: unknown, live: unknown, rules: Rules): Drift[] {
  return differences(recorded, live, MANY).map((found) => ({
    ...described(found),
    rules: explainedBy(found.recorded, found.live, rules, found.path),
  }));
}

/** The first difference that no rule explains. */
function firstDifference(call: RecordedCall, asked: Asked, bare: Bare, rules: Rules): Difference {
  if (call.dialect !== asked.dialect)
    return { path: 'dialect', at: null, recorded: JSON.stringify(call.dialect), live: JSON.stringify(asked.dialect) };
  if (call.request === null) return { path: 'request', at: null, recorded: null, live: null };
  const [recorded, live] = pairOf(call, asked.request, bare);
  const [unexplained] = differences(normalised(recorded, rules), normalised(live, rules), 1);
  const found = differences(recorded, live, 1000);
  const same = unexplained === undefined ? undefined : found.find(({ path }) => path.join('\0') === unexplained.path.join('\0'));
  const first = same ?? unexplained ?? found[0];
  if (first === undefined) return { path: 'request', at: null, recorded: null, live: null };
  const isText = typeof first.recorded === 'string' && typeof first.live === 'string';
  return described(first, isText ? unexplainedAt(first.recorded as string, first.live as string, rules, first.path) : null);
}

function comparedTools(recorded: Fields, live: Fields): ToolComparison[] {
  const before = new Map(cutToolResults(recorded).results.map((result) => [result.id, result]));
  return cutToolResults(live).results.map(({ id, name, content }) => {
    const [found] = differences(before.get(id)?.content ?? null, content, 1);
    return { toolCallId: id, name, difference: found === undefined ? null : described({ ...found, path: ['result', ...found.path] }) };
  });
}
