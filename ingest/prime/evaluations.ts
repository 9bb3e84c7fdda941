/** The life of evaluations, over the log. Nothing is kept here that the log does not say; what is remembered only saves look-ups. */
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { Result } from '../../base/result.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { appendOne } from '../append-one.ts';
import type { AcceptContext, Accepted } from '../accept.ts';
import { makeEvent } from '../importers/event-maker.ts';
import { sameJson, type JsonRecord } from '../importers/json-value.ts';
import { endedData, foldEvaluation, startedData, type EvaluationState } from './evaluation.ts';
import { recent } from './recent.ts';
import { readRunEvents, type RunEvent, type RunEventsPorts } from './run-events.ts';

export type Evaluations = {
  /** Makes a run and returns its id once its start is durable. */
  create(body: JsonRecord): Promise<{ readonly id: string; readonly state: EvaluationState }>;
  /** Throws `not_found` for a run that nobody ever started. */
  read(id: string): Promise<EvaluationState>;
  /** Throws `not_found`, `evaluation_closed` when it ended otherwise before. */
  update(id: string, body: JsonRecord): Promise<EvaluationState>;
  finalize(id: string, metrics: JsonRecord | null): Promise<EvaluationState>;
  /** Whether the run's start is in the log. Null when that cannot be found out now. */
  isStarted(run: string): Promise<boolean | null>;
  /** The run's start is durable now. */
  started(run: string): void;
};

export type EvaluationsPorts = RunEventsPorts & {
  readonly accept: AcceptContext;
  readonly random: Random;
  readonly onAccepted: (accepted: Accepted, bytes: number) => void;
};

/** Runs remembered as started. */
const REMEMBERED = 10_000;

export function openEvaluations(ports: EvaluationsPorts): Evaluations {
  /** Runs whose start is durable, with their events as far as this process saw them. */
  const known = recent<readonly RunEvent[]>(REMEMBERED);
  const put = async (run: string, before: readonly RunEvent[], type: RunEvent['type'], data: JsonRecord): Promise<readonly RunEvent[]> => {
    const time = ports.clock.nowMicros();
    await appendOne(makeEvent({ run }, type, '', time, data).slice, ports);
    const events = [...before, { offset: Infinity, type, time, data }];
    known.set(run, events);
    return events;
  };
  const read = async (id: string): Promise<readonly RunEvent[]> => {
    const events = await readRunEvents(DEFAULT_PROJECT, id, ports).catch((error: unknown) => {
      // the store may be away while events are taken all the same
      const remembered = known.get(id);
      if (remembered !== undefined && remembered.length > 0) return remembered;
      throw error;
    });
    if (events.length > 0) return events;
    throw new TapedeckError(
      'not_found',
      `there is no evaluation ${JSON.stringify(id.slice(0, 256))}; create it with POST /api/v1/evaluations/`,
    );
  };
  return {
    async create(body) {
      const id = uuidV7(ports.clock, ports.random).replaceAll('-', '');
      return { id, state: stateOf(await put(id, [], 'run.started', checked(startedData(body)))) };
    },
    read: async (id) => stateOf(await read(id)),
    async update(id, body) {
      const ending = endingOf(body);
      let events = await read(id);
      const { status } = stateOf(events);
      if (ending !== null && status !== 'RUNNING') {
        if (status === ending.toUpperCase()) return stateOf(events);
        throw new TapedeckError('evaluation_closed', `evaluation ${id} is ${status} already`);
      }
      const said = Object.keys(body).filter((key) => key !== 'status' && key !== 'error_message' && body[key] !== null);
      if (said.length > 0) events = await put(id, events, 'run.started', checked(startedData(body)));
      if (ending === null) return stateOf(events);
      const { metrics } = stateOf(events);
      return stateOf(
        await put(id, events, 'run.ended', endedData(ending, ports.clock.nowMicros(), metrics, textOf(body['error_message']))),
      );
    },
    async finalize(id, given) {
      const events = await read(id);
      const { status, metrics } = stateOf(events);
      if (status === 'FAILED' || status === 'CANCELLED')
        throw new TapedeckError('evaluation_closed', `evaluation ${id} is ${status} already`);
      const wanted = given ?? metrics;
      if (status === 'COMPLETED' && sameJson(wanted, metrics)) return stateOf(events);
      return stateOf(await put(id, events, 'run.ended', endedData('completed', ports.clock.nowMicros(), wanted)));
    },
    async isStarted(run) {
      if (known.get(run) !== undefined) return true;
      try {
        const events = await readRunEvents(DEFAULT_PROJECT, run, ports);
        const isStarted = events.some(({ type }) => type === 'run.started');
        if (isStarted) known.set(run, events);
        return isStarted;
      } catch {
        return null;
      }
    },
    started: (run) => known.set(run, known.get(run) ?? []),
  };
}

function stateOf(events: readonly RunEvent[]): EvaluationState {
  return foldEvaluation(events) as EvaluationState;
}

function checked(data: Result<JsonRecord>): JsonRecord {
  if (data.ok) return data.value;
  throw new TapedeckError(data.error.code, data.error.message, { details: { field: data.error.field } });
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** The end that an update asks for; completing is the task of finalize. */
function endingOf(body: JsonRecord): 'failed' | 'cancelled' | null {
  const { status } = body;
  if (status === undefined || status === null || status === 'RUNNING') return null;
  if (status === 'FAILED') return 'failed';
  if (status === 'CANCELLED') return 'cancelled';
  throw new TapedeckError('invalid_value', 'status must be FAILED or CANCELLED; an evaluation is completed by POST …/finalize', {
    details: { field: 'status' },
  });
}
