/** Why an answer ended, in the words of each dialect. Neutral words are those of chat. */
import type { Choice } from './dialect.ts';

export type Finish = Pick<Choice, 'finishReason' | 'nativeFinish' | 'stopSequence'>;

export const UNFINISHED: Finish = { finishReason: null, nativeFinish: null, stopSequence: null };

const FROM_MESSAGES: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

/** Reasons without a chat word (pause_turn, compaction) stay as they are. */
export function fromMessages(reason: string | null, stopSequence: string | null): Finish {
  if (reason === null) return UNFINISHED;
  return {
    finishReason: Object.hasOwn(FROM_MESSAGES, reason) ? (FROM_MESSAGES[reason] as string) : reason,
    nativeFinish: reason,
    stopSequence,
  };
}

/** The stop reason of Messages, or null when it has no such word. An answer with tool calls always says tool_use: harnesses go by it. */
export function toMessages(finish: Finish, hasCalls: boolean): { reason: string; sequence: string | null } | null {
  const { finishReason, stopSequence } = finish;
  switch (finishReason) {
    case 'stop':
      if (hasCalls) return { reason: 'tool_use', sequence: null };
      return typeof stopSequence === 'string'
        ? { reason: 'stop_sequence', sequence: stopSequence }
        : { reason: 'end_turn', sequence: null };
    case 'tool_calls':
    case 'function_call':
      return { reason: 'tool_use', sequence: null };
    case 'length':
      return { reason: 'max_tokens', sequence: null };
    case 'content_filter':
      return { reason: 'refusal', sequence: null };
    default:
      return null;
  }
}

/** A response's status and, when incomplete, its reason. */
export function fromResponses(status: string | null, incomplete: string | null, hasCalls: boolean): Finish {
  const known = (finishReason: string, nativeFinish: string): Finish => ({ finishReason, nativeFinish, stopSequence: null });
  switch (status) {
    case null: // engines that answer in one piece may leave it out
    case 'completed':
      return known(hasCalls ? 'tool_calls' : 'stop', 'completed');
    case 'incomplete':
      if (incomplete === 'max_output_tokens') return known('length', incomplete);
      return known(incomplete ?? 'length', incomplete ?? 'incomplete');
    case 'failed':
    case 'cancelled':
      return known(status, status);
    default:
      return UNFINISHED;
  }
}

/** Null when Responses has no such word. */
export function toResponses(finish: Finish): { status: 'completed' | 'incomplete'; incomplete: string | null } | null {
  switch (finish.finishReason) {
    case 'stop':
    case 'tool_calls':
    case 'function_call':
      return { status: 'completed', incomplete: null };
    case 'length':
      return { status: 'incomplete', incomplete: 'max_output_tokens' };
    case 'content_filter':
      return { status: 'incomplete', incomplete: 'content_filter' };
    default:
      return null;
  }
}
