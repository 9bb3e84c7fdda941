/**
 * The calls of the Prime platform that verifiers, prime-traces and prime-evals make when they push, at the same paths: two environment variables point them here.
 * docs/uploads.md says what becomes of each.
 */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { IngestPorts, IngestRoutes } from '../http/server.ts';
import { toTapedeckError } from '../http/error-answer.ts';
import { registerEvaluations } from './evaluation-routes.ts';
import { openEvaluations } from './evaluations.ts';
import { registerTraceList } from './list-traces.ts';
import { sendFailure } from './prime-answer.ts';
import { UPLOAD_LIMITS, type UploadLimits } from './upload-limits.ts';
import { registerUploads, type UploadPorts } from './uploads-route.ts';

/** Routes for `createIngest`. Any credential is taken, as the server listens on loopback only; none is read or logged. */
export function primeRoutes(options: { readonly store: ColumnStore; readonly limits?: Partial<UploadLimits> }): IngestRoutes {
  return (app, shared: IngestPorts) => {
    const { accept, clock, random, metrics } = shared;
    const { store } = options;
    const { log, blobs } = accept;
    const evaluations = openEvaluations({
      accept,
      store,
      log,
      blobs,
      clock,
      random,
      onAccepted: (accepted, bytes) => metrics.onAccepted(accepted, bytes),
    });
    const ports: UploadPorts = { ...shared, evaluations, uploads: { ...UPLOAD_LIMITS, ...options.limits } };
    app.removeAllContentTypeParsers();
    // bodies are read by the handlers, at their own pace and within their own limits
    app.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
    app.setValidatorCompiler(() => () => true);
    app.setSerializerCompiler(() => (value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    app.setErrorHandler((error, _request, reply) => {
      const known = toTapedeckError(error);
      if (known.code === 'internal') accept.onFailure?.(error);
      metrics.onRefused(known.code);
      return sendFailure(reply, known, ports);
    });
    registerUploads(app, ports);
    registerEvaluations(app, ports);
    registerTraceList(app, { store });
  };
}
