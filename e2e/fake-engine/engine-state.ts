/** What all requests of one engine share. */
import type { Clock } from '../../base/clock.ts';
import type { Behaviour } from './behaviour.ts';
import type { ChatMessage } from './chat-template.ts';
import type { FaultQueue } from './faults.ts';
import type { RequestLog } from './seen.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Which server's manners: the routes it has, the fields it answers and refuses, the shape of its errors. */
export type EngineKind = 'vllm' | 'sglang' | 'openai' | 'anthropic';

export type ModelSettings = {
  readonly id: string;
  readonly maxModelLen: number;
  /** Whether it thinks aloud (`reasoning_content`). */
  readonly thinks: boolean;
  /** What the template does with the reasoning of answers before the last user message. */
  readonly earlierReasoning: 'keep' | 'drop';
};

export type Engine = {
  readonly kind: EngineKind;
  readonly seed: number;
  readonly models: readonly ModelSettings[];
  readonly tokenizer: Tokenizer;
  readonly behaviour: Behaviour;
  readonly clock: Clock;
  readonly faults: FaultQueue;
  readonly log: RequestLog;
  readonly pace: { firstTokenMs: number; tokenMs: number; streamInterval: number };
  /** What chat answers call the reasoning: SGLang and older vLLM `reasoning_content`, newer vLLM `reasoning`. */
  readonly reasoningField: 'reasoning_content' | 'reasoning';
  /** Where answers tell the policy version that sampled them. */
  readonly tellVersion: 'none' | 'header' | 'body' | 'both';
  policyVersion: number;
  /** What a later `previous_response_id` goes on from: the newest 1,000. */
  readonly conversations: { get(id: string): readonly ChatMessage[] | undefined; set(id: string, messages: readonly ChatMessage[]): void };
  /** Which sample of this prompt it is: 0, 1, 2 … */
  nextSample(prompt: number): number;
  restart(downMs: number): void;
};
