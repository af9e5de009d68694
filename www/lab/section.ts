// What the frame of the page knows of a section.

/** A part of the page with an address of its own. */
export interface Section {
  /** What it was told, as the address has it. */
  params(): URLSearchParams;
  /** Takes what an address says. */
  apply(params: URLSearchParams): void;
  /** It can be seen now. */
  shown?(): void;
  /** Ends what runs; whether there was anything. */
  stop?(): boolean;
}

/** What a section knows of the page. */
export interface Frame {
  /** Its settings are other ones: the address follows. */
  changed(): void;
}

export type SectionMaker = (root: HTMLElement, frame: Frame) => Section;
