/** `previous_response_id`: the conversation so far and the new input as one whole conversation. Pure; who keeps responses is not its business. */
import type { Answer, Ask, Message } from './dialect.ts';

/** What must be kept of an earlier call: its conversation (itself whole, when it continued another), and its answer. */
export type StoredResponse = {
  readonly messages: readonly Message[];
  /** How many leading messages were the instructions of that call: they are not carried over, as in the API. */
  readonly instructions: number;
  readonly answer: Answer;
};

/** The ask with the whole conversation and without `previousResponseId`. */
export function continueResponse(stored: StoredResponse, ask: Ask): Ask {
  const own = ask.messages.slice(0, ask.instructions);
  const before = stored.messages.slice(stored.instructions);
  const answers = stored.answer.choices.slice(0, 1).map((choice) => choice.message);
  return { ...ask, messages: [...own, ...before, ...answers, ...ask.messages.slice(ask.instructions)], previousResponseId: null };
}
