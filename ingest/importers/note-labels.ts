/** Labels of notes that say where a rollout came from. */

/** Names the upload a rollout came in, and its context. */
export const UPLOAD_LABEL = 'upload';
/** Keeps what a sample said beside its rollout. */
export const SAMPLE_LABEL = 'sample';
