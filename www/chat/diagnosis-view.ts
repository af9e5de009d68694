// What this browser offers, as JSON to read, copy and send along with a report.
import { diagnose } from 'tokenbrook';
import { announce } from '../shared/announcer.js';
import { action, field } from '../shared/dom.js';
import { downloadJson } from '../shared/download.js';

/** Asks the browser each time that the section opens: a load may have found out more. */
export function bindDiagnosis(section: HTMLDetailsElement): void {
  const report = field(section, 'diagnosis-report');
  section.addEventListener('toggle', () => {
    if (!section.open) return;
    void diagnose().then((found) => {
      report.textContent = JSON.stringify(found, null, 2);
    });
  });
  action(section, 'copy-diagnosis').addEventListener('click', () => {
    // Without the permission the text can still be selected by hand.
    navigator.clipboard.writeText(report.textContent ?? '').then(
      () => announce('Copied.'),
      () => announce('The browser does not allow copying: select the text.'),
    );
  });
  action(section, 'download-diagnosis').addEventListener('click', () => {
    void diagnose().then((found) => downloadJson('browser', found));
  });
}
