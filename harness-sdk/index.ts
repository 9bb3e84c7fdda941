/** The public face of the package `@tapedeck/harness`. */
export { createRecorder } from './recorder.ts';
export { currentTrace } from './current-trace.ts';
export { wrapAnthropic, wrapOpenAI } from './wrap/clients.ts';
export { recordingFetch } from './wrap/recording-fetch.ts';
export { isTapedeckError, TapedeckError, type ErrorCode } from '../base/errors.ts';
export type * from './api.ts';
export type * from './record-types.ts';
export type * from './delivery/reports.ts';
