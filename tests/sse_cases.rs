//! The 33 cases that parsers, clients and mock servers of event streams get wrong, and the tests
//! that hold them here.

use std::fs;
use std::path::Path;

/// Tests of one file, by their names.
type Tests = (&'static str, &'static [&'static str]);

const LINES: &str = "tests/sse/lines.rs";
const TEXT: &str = "tests/sse/text.rs";
const FIELDS: &str = "tests/sse/fields.rs";
const LIMITS: &str = "tests/sse/limits.rs";
const RANDOM: &str = "tests/sse/random.rs";
const REPLY: &str = "tests/client.rs";
const PARSER_SPEC: &str = "tests/browser/specs/sse.spec.ts";
const CLIENT_SPEC: &str = "tests/browser/specs/client.spec.ts";

/// Cases whose tests need a server: they are the mock's.
const OF_A_SERVER: [u8; 2] = [32, 33];

const CASES: [(u8, &str, &[Tests]); 33] = [
    (
        1,
        "LF, CR and CRLF alone and mixed",
        &[(
            LINES,
            &["lines_end_with_lf_or_cr_or_both_even_in_one_stream"],
        )],
    ),
    (
        2,
        "CR and LF in two pieces",
        &[(LINES, &["a_cr_and_an_lf_in_two_pieces_are_one_line_end"])],
    ),
    (
        3,
        "CR at the end of a piece, then something else, or an empty line",
        &[(
            LINES,
            &["an_empty_line_after_a_split_line_end_still_dispatches"],
        )],
    ),
    (
        4,
        "a blank CR line at the end of a piece",
        &[(
            LINES,
            &["a_blank_cr_line_at_the_end_of_a_piece_dispatches_once_and_at_once"],
        )],
    ),
    (
        5,
        "every separator, cut at every byte",
        &[(LINES, &["every_pair_of_line_ends_separates_events"])],
    ),
    (
        6,
        "any cut gives the same events",
        &[
            (LINES, &["any_cut_into_pieces_gives_the_same_events"]),
            (RANDOM, &["random_streams_read_as_the_standard_says"]),
        ],
    ),
    (
        7,
        "many events in a piece, an event in many pieces",
        &[(
            LINES,
            &[
                "many_events_in_one_piece_come_in_their_order",
                "an_event_in_a_million_pieces_takes_linear_time",
                "a_long_id_is_not_copied_for_every_event_after_it",
            ],
        )],
    ),
    (
        8,
        "a value of 4.8 MB",
        &[(LINES, &["a_value_of_millions_of_bytes_arrives_whole"])],
    ),
    (
        9,
        "an end without the empty line",
        &[(
            LINES,
            &[
                "an_unfinished_event_at_the_end_is_dropped",
                "the_end_of_a_stream_leaves_nothing_for_the_next",
            ],
        )],
    ),
    (
        10,
        "empty pieces and kinds of pieces",
        &[
            (LINES, &["empty_pieces_change_nothing"]),
            (
                PARSER_SPEC,
                &["pieces may be any kind of bytes, and nothing else"],
            ),
        ],
    ),
    (
        11,
        "byte order marks",
        &[(
            TEXT,
            &[
                "one_byte_order_mark_at_the_start_is_skipped",
                "the_start_of_a_byte_order_mark_alone_belongs_to_a_name",
            ],
        )],
    ),
    (
        12,
        "UTF-8 split and broken",
        &[(
            TEXT,
            &[
                "characters_of_any_length_survive_every_cut",
                "broken_utf_8_becomes_u_fffd_and_the_stream_goes_on",
            ],
        )],
    ),
    (
        13,
        "characters that look like line ends",
        &[(TEXT, &["no_other_character_ends_a_line"])],
    ),
    (
        14,
        "escaped line ends in JSON",
        &[(TEXT, &["escaped_line_ends_in_json_separate_nothing"])],
    ),
    (
        15,
        "data without colon, value or space",
        &[(
            FIELDS,
            &["data_without_a_colon_is_an_empty_line_and_one_space_is_dropped"],
        )],
    ),
    (
        16,
        "data of several lines",
        &[(FIELDS, &["data_lines_join_with_lf_and_empty_ones_stay"])],
    ),
    (
        17,
        "blocks without data, types that last",
        &[(
            FIELDS,
            &[
                "a_block_without_data_is_no_event_but_its_id_counts",
                "the_type_lasts_for_one_event_and_an_empty_one_is_message",
            ],
        )],
    ),
    (
        18,
        "ids: NUL, empty, several, lasting",
        &[(
            FIELDS,
            &[
                "an_id_with_a_nul_is_ignored_and_the_one_before_it_survives",
                "ids_last_until_the_next_and_an_empty_one_clears",
            ],
        )],
    ),
    (
        19,
        "retry is digits",
        &[(FIELDS, &["retry_takes_digits_and_nothing_else"])],
    ),
    (
        20,
        "comments",
        &[(
            FIELDS,
            &[
                "comments_dispatch_nothing",
                "a_long_comment_in_pieces_is_one_comment",
            ],
        )],
    ),
    (
        21,
        "names that are none",
        &[(FIELDS, &["names_are_exact_and_the_rest_is_ignored"])],
    ),
    (
        22,
        "the limit",
        &[
            (
                LIMITS,
                &[
                    "a_line_without_an_end_stops_at_the_limit",
                    "data_lines_without_an_empty_line_stop_at_the_limit",
                    "the_limit_is_of_one_event_not_of_the_stream",
                    "nothing_is_read_past_the_limit_until_the_stream_ends",
                ],
            ),
            (
                PARSER_SPEC,
                &[
                    "an event beyond the limit is a server-error, until the stream is over",
                    "what is wrong later in a piece shows only when the reader comes to it",
                ],
            ),
        ],
    ),
    (
        23,
        "lines that are not kept",
        &[(LIMITS, &["lines_that_mean_nothing_are_not_kept"])],
    ),
    (
        24,
        "[DONE] in its forms, or none",
        &[
            (
                REPLY,
                &["only_the_marker_or_a_finish_reason_completes_a_reply"],
            ),
            (
                PARSER_SPEC,
                &["an end within a callback drops the rest of the piece"],
            ),
            (
                CLIENT_SPEC,
                &["a stream that broke after its first text is not begun again elsewhere"],
            ),
        ],
    ),
    (
        25,
        "failures within a stream, and other bodies",
        &[
            (
                REPLY,
                &["failures_within_a_stream_are_told_without_their_payload"],
            ),
            (
                CLIENT_SPEC,
                &[
                    "a failure within a stream is told and ends it",
                    "a wrong kind of body before the first text goes to the next rung",
                    "a Retry-After is waited for",
                ],
            ),
        ],
    ),
    (
        26,
        "chunks of every shape",
        &[(REPLY, &["chunks_of_every_shape_are_read"])],
    ),
    (
        27,
        "JSON that is broken or hostile",
        &[(
            REPLY,
            &[
                "failures_within_a_stream_are_told_without_their_payload",
                "chunks_of_every_shape_are_read",
            ],
        )],
    ),
    (
        28,
        "readers that leave",
        &[
            (
                PARSER_SPEC,
                &["a cancel reaches the source with its reason, even while a piece waits"],
            ),
            (
                CLIENT_SPEC,
                &[
                    "an abort ends everything with its reason",
                    "a reader that leaves closes the connection",
                ],
            ),
        ],
    ),
    (
        29,
        "errors before and while somebody reads",
        &[(
            PARSER_SPEC,
            &[
                "an error of the source errors the reader, after what came before it",
                "an abort of the writer errors the reader at once, even while a piece waits",
                "a write of something else errors both ends",
            ],
        )],
    ),
    (
        30,
        "slow readers",
        &[(
            PARSER_SPEC,
            &["a stream is parsed no further than its reader pulls"],
        )],
    ),
    (
        31,
        "reconnections",
        &[
            (
                REPLY,
                &[
                    "cut_anywhere_and_resumed_each_event_is_heard_once",
                    "a_server_that_starts_over_is_heard_once_too",
                    "without_ids_there_is_nothing_to_resume",
                ],
            ),
            (
                CLIENT_SPEC,
                &[
                    "a stream cut at any byte goes on where it was, each event once",
                    "what a server tells again after a break is not shown again",
                    "a POST is not sent again where it may have done something",
                ],
            ),
        ],
    ),
    (
        32,
        "service workers: killed, updated, several tabs, what they leave alone",
        &[],
    ),
    (33, "several readers of one reply, at several places", &[]),
];

#[test]
fn every_case_is_held_by_tests_that_exist() {
    for (at, (number, what, tests)) in CASES.iter().enumerate() {
        assert_eq!(usize::from(*number), at + 1);
        let is_held = !tests.is_empty() || OF_A_SERVER.contains(number);
        assert!(is_held, "case {number}, {what}, has no test");
        for (file, names) in *tests {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = fs::read_to_string(path).expect("the file reads");
            for name in *names {
                let starts = [format!("fn {name}()"), format!("test('{name}'")];
                let is_there = starts.iter().any(|start| text.contains(start.as_str()));
                assert!(is_there, "case {number}: {file} has no test {name:?}");
            }
        }
    }
}
