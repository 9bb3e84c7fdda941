/** The public face of the package `@tapedeck/harness`. */
export { createRecorder, type Recorder, type RecorderOptions, type WaitOptions } from './recorder.ts';
export type { Run, RunEndOptions } from './run.ts';
export type { Rollout } from './rollout.ts';
export type { Tool, Trace } from './trace.ts';
export { currentTrace } from './current-trace.ts';
export { wrapAnthropic, wrapOpenAI } from './wrap/clients.ts';
export { recordingFetch, type RecordingOptions } from './wrap/recording-fetch.ts';
export type * from './record-types.ts';
export type { Counters } from './delivery/counters.ts';
export type { SpoolOptions } from './delivery/limits.ts';
export type { Drained } from './delivery/drain.ts';
export type { Rejected } from './delivery/sender.ts';
export type { Problem } from './delivery/answer.ts';
export { isTapedeckError, TapedeckError, type ErrorCode } from '../base/errors.ts';
