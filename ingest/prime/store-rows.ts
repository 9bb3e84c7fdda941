import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';

/** Rows of a question of our own. The store refusing it means that its tables are not there yet, as for a moment after a start: `store_unavailable`. */
export async function storeRows<T>(store: ColumnStore, sql: string, options: QueryOptions): Promise<T[]> {
  try {
    return await store.rows<T>(sql, options);
  } catch (error) {
    if (!isTapedeckError(error, 'sql_error')) throw error;
    throw new TapedeckError('store_unavailable', 'the tables of the column store are not ready; send the same request again', {
      cause: error,
    });
  }
}
