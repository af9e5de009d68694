// Buttons that hand a result over as files.
import { toCsv, type Table } from './csv.js';
import { downloadJson, downloadText } from './download.js';
import { button } from './elements.js';

export interface Saved {
  /** Names the files. */
  name: string;
  json: unknown;
  /** Rows, or CSV as it is. */
  table?: Table;
  csv?: string;
}

/** JSON and CSV; `result` is asked at each press and gives `undefined` where there is none yet. */
export function saveButtons(result: () => Saved | undefined): HTMLButtonElement[] {
  return [
    button('JSON', 'quiet bordered', () => {
      const found = result();
      if (found !== undefined) downloadJson(found.name, found.json);
    }),
    button('CSV', 'quiet bordered', () => {
      const found = result();
      if (found === undefined) return;
      const csv = found.csv ?? toCsv(found.table ?? { columns: [], rows: [] });
      downloadText(found.name, 'csv', 'text/csv', csv);
    }),
  ];
}
