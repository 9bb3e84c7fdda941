/** One replay: requests in, plans out, and everything noted for the report. No I/O. */
import { TapedeckError, type ErrorCode } from '../../../base/errors.ts';
import { differenceText, type Difference } from '../request/difference.ts';
import { compileNormalisers, type Normaliser } from '../request/normalise.ts';
import { createMatcher, type Asked, type Matched } from '../tape/matcher.ts';
import type { RecordedAnswer, RecordedCall } from '../tape/recorded-call.ts';
import type { Tape } from '../tape/tape.ts';
import type { CallReport, Miss, ReplayReport, ToolReport } from './report.ts';

export const POLICIES = ['strict', 'ordered-fallback', 'live-on-miss', 'forbid-network'] as const;
/**
 * What a request gets that differs from the record.
 * - strict: it is refused, and so is everything after it: the record no longer says what would have happened.
 * - forbid-network: it is refused; later requests are matched on. Nothing is ever sent anywhere.
 * - ordered-fallback: it gets the answer of the next call all the same.
 * - live-on-miss: it goes to a model.
 */
export type Policy = (typeof POLICIES)[number];

export type SessionOptions = {
  readonly policy: Policy;
  readonly normalisers: readonly Normaliser[];
  readonly liveTools: boolean;
  /** Only what came before this call is played; when all of that is served, requests go to a model. */
  readonly fork: { readonly trace: string; readonly index: number } | null;
};

export type Plan =
  | {
      readonly kind: 'answer';
      readonly call: RecordedCall;
      readonly answer: RecordedAnswer;
      readonly how: 'match' | 'again' | 'drift' | 'fallback';
    }
  | { readonly kind: 'live' }
  | { readonly kind: 'refuse'; readonly code: ErrorCode; readonly message: string };

export type Session = {
  readonly tape: Tape;
  plan(asked: Asked): Plan;
  note(text: string): void;
  report(): ReplayReport;
};

type CallNotes = {
  servedAs: number | null;
  repeats: number;
  verdict: 'match' | 'drift' | 'divergence' | 'unserved';
  drifts: CallReport['drifts'];
  difference: Difference | null;
};

/** Throws `usage` for a normaliser that cannot be read, `replay_unavailable` when the record holds nothing that could be played. */
export function createSession(tape: Tape, options: SessionOptions): Session {
  return new ReplaySession(tape, options);
}

class ReplaySession implements Session {
  readonly tape: Tape;
  readonly #options: SessionOptions;
  readonly #matcher: ReturnType<typeof createMatcher>;
  readonly #calls: readonly RecordedCall[];
  /** Behind a fork: what the record went on with. */
  readonly #behind: ReturnType<typeof createMatcher>;
  readonly #notes = new Map<RecordedCall, CallNotes>();
  readonly #misses: Miss[] = [];
  readonly #tools = new Map<string, ToolReport>();
  readonly #remarks: string[] = [];
  #requests = 0;
  #served = 0;
  #divergedAt: Miss | null = null;

  constructor(tape: Tape, options: SessionOptions) {
    const { fork } = options;
    this.tape = tape;
    this.#options = options;
    this.#calls = fork === null ? tape.calls : tape.calls.filter(isBefore(tape, fork));
    if (fork === null && this.#calls.length > 0 && this.#calls.every(({ missing }) => missing !== null)) {
      throw new TapedeckError('replay_unavailable', `nothing of rollout ${tape.rollout} can be played: ${this.#calls[0]?.missing ?? ''}`);
    }
    const matching = { rules: compileNormalisers(options.normalisers), liveTools: options.liveTools };
    this.#matcher = createMatcher(this.#calls, matching);
    this.#behind = createMatcher(fork === null ? [] : tape.calls.filter((call) => !this.#calls.includes(call)), matching);
  }

  plan(asked: Asked): Plan {
    const request = this.#requests++;
    if (this.#divergedAt !== null) {
      const message = `the replay diverged at request ${this.#divergedAt.request} (${this.#divergedAt.message}), and the policy is strict`;
      this.#misses.push({ request, kind: 'stopped', comparedWith: null, difference: null, message });
      return { kind: 'refuse', code: 'replay_diverged', message };
    }
    const found = this.#matcher.match(asked);
    switch (found.kind) {
      case 'again':
        this.#notesOf(found.call).repeats++;
        return this.#answer(request, found.call, 'again', asked);
      case 'match':
      case 'drift':
        return this.#take(request, found, asked);
      case 'divergence':
        if (this.#isBehindFork(asked)) return this.#live(request, 'behind the fork');
        return this.#diverged(request, found.call, found.difference, asked);
      case 'exhausted':
        return this.#exhausted(request, found.limit);
    }
  }

  note(text: string): void {
    this.#remarks.push(text);
  }

  #take(request: number, found: Extract<Matched, { kind: 'match' | 'drift' }>, asked: Asked): Plan {
    const { call, kind, tools } = found;
    Object.assign(this.#notesOf(call), { servedAs: this.#served++, verdict: kind, drifts: kind === 'drift' ? found.drifts : [] });
    for (const tool of tools) {
      const key = `${call.trace}\0${tool.toolCallId}`;
      if (!this.#tools.has(key)) this.#tools.set(key, { ...tool, trace: call.trace, call: call.index });
    }
    return this.#answer(request, call, kind, asked);
  }

  #answer(request: number, call: RecordedCall, how: 'match' | 'again' | 'drift' | 'fallback', asked: Asked): Plan {
    const answer = asked.request['stream'] === true ? (call.streamed ?? call.answer) : call.answer;
    if (answer !== null) return { kind: 'answer', call, answer, how };
    const message = `call ${call.index} of trace ${call.trace} cannot be played: ${call.missing ?? 'it has no answer'}`;
    return this.#miss({ request, kind: 'unavailable', comparedWith: placeOf(call), difference: null, message }, 'replay_unavailable');
  }

  #diverged(request: number, call: RecordedCall, difference: Difference, asked: Asked): Plan {
    const { policy, fork } = this.#options;
    const message =
      call.request === null
        ? `call ${call.index} of trace ${call.trace}: ${call.missing ?? 'its request is not recorded'}`
        : `it differs from call ${call.index} of trace ${call.trace} in ${differenceText(difference)}`;
    const miss: Miss = { request, kind: 'divergence', comparedWith: placeOf(call), difference, message };
    if (policy === 'ordered-fallback' && call.answer !== null && fork === null) {
      this.#matcher.use(call);
      Object.assign(this.#notesOf(call), { servedAs: this.#served++, verdict: 'divergence', difference });
      return this.#answer(request, call, 'fallback', asked);
    }
    if (policy === 'strict') this.#divergedAt = miss;
    return this.#miss(miss, 'replay_diverged');
  }

  /** Parallel calls have no fixed order: one of behind the fork may come before the last of those before it. */
  #isBehindFork(asked: Asked): boolean {
    if (this.#options.fork === null) return false;
    const found = this.#behind.match(asked);
    return found.kind === 'match' || found.kind === 'drift';
  }

  #exhausted(request: number, limit: RecordedCall | null): Plan {
    if (this.#options.fork !== null) return this.#live(request, 'behind the fork');
    // a limit that was reached stays reached
    if (limit !== null && limit.answer !== null) {
      this.#notesOf(limit).repeats++;
      return { kind: 'answer', call: limit, answer: limit.answer, how: 'again' };
    }
    const message = `the record holds no more calls: ${this.#calls.length} were recorded, and all are served`;
    return this.#miss({ request, kind: 'exhausted', comparedWith: null, difference: null, message }, 'replay_exhausted');
  }

  #miss(miss: Miss, code: ErrorCode): Plan {
    if (this.#options.policy === 'live-on-miss' && this.#options.fork === null) return this.#live(miss.request, miss.message, miss);
    this.#misses.push(miss);
    return { kind: 'refuse', code, message: miss.message };
  }

  #live(request: number, message: string, miss?: Miss): Plan {
    this.#misses.push({ request, kind: 'live', comparedWith: miss?.comparedWith ?? null, difference: miss?.difference ?? null, message });
    return { kind: 'live' };
  }

  #notesOf(call: RecordedCall): CallNotes {
    const known = this.#notes.get(call);
    if (known !== undefined) return known;
    const made: CallNotes = { servedAs: null, repeats: 0, verdict: 'unserved', drifts: [], difference: null };
    this.#notes.set(call, made);
    return made;
  }

  report(): ReplayReport {
    const { tape } = this;
    const calls = this.#calls.map((call) => reported(call, this.#notes.get(call)));
    const count = (verdict: CallReport['verdict']): number => calls.filter((call) => call.verdict === verdict).length;
    const served = calls.length - count('unserved');
    const tools = [...this.#tools.values()];
    const live = this.#misses.filter(({ kind }) => kind === 'live').length;
    return {
      project: tape.project,
      run: tape.run,
      rollout: tape.rollout,
      policy: this.#options.policy,
      normalisers: this.#options.normalisers,
      liveTools: this.#options.liveTools,
      requests: this.#requests,
      summary: {
        calls: calls.length,
        served,
        matches: count('match'),
        drifts: count('drift'),
        divergences:
          count('divergence') + this.#misses.filter(({ difference, kind }) => difference !== null || kind === 'exhausted').length,
        unserved: count('unserved'),
        live,
        coverage: calls.length === 0 ? null : served / calls.length,
        tools: { compared: tools.length, different: tools.filter(({ difference }) => difference !== null).length },
      },
      calls,
      misses: this.#misses,
      tools,
      notes: this.#remarks,
    };
  }
}

/** Of the forked trace the calls before the fork, of others what had begun by then. Throws `usage` when there is no such call. */
function isBefore(tape: Tape, fork: { readonly trace: string; readonly index: number }): (call: RecordedCall) => boolean {
  const at = tape.calls.find((call) => call.trace === fork.trace && call.index === fork.index);
  if (at === undefined) {
    const calls = tape.calls.filter(({ trace }) => trace === fork.trace).length;
    throw new TapedeckError('usage', `trace ${fork.trace} has no call ${fork.index}: it has ${calls}, counted from 0`);
  }
  return (call) => (call.trace === fork.trace ? call.index < fork.index : call.start < at.start);
}

function placeOf({ trace, index }: RecordedCall): { readonly trace: string; readonly index: number } {
  return { trace, index };
}

function reported(call: RecordedCall, notes: CallNotes | undefined): CallReport {
  return {
    trace: call.trace,
    index: call.index,
    verdict: notes?.verdict ?? 'unserved',
    matchedBy: call.request === null ? null : call.matchedBy,
    servedAs: notes?.servedAs ?? null,
    repeats: notes?.repeats ?? 0,
    ending: call.answer?.ending ?? null,
    status: call.answer?.status ?? null,
    isExact: call.answer?.isExact ?? null,
    drifts: notes?.drifts ?? [],
    difference: notes?.difference ?? null,
    missing: call.missing,
  };
}
