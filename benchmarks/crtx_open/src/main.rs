//! Opens a folder of fixtures with `crtx-llm` and prints the CPU time of each opening.
//!
//! `crtx_open FOLDER TIMES COUNT`: one line of nanoseconds per opening. It fails unless the folder
//! holds COUNT fixtures, because a refusal would be fast too.

use std::env;
use std::process::exit;

use cortex_llm::ReplayAdapter;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, times, count] = arguments.as_slice() else {
        eprintln!("usage: crtx_open FOLDER TIMES COUNT");
        exit(2);
    };
    let times: usize = times.parse().expect("TIMES is a number");
    let count: usize = count.parse().expect("COUNT is a number");
    for _ in 0..times {
        let start = cpu_nanoseconds();
        let adapter = ReplayAdapter::new(folder).expect("the folder is sound");
        let taken = cpu_nanoseconds() - start;
        assert_eq!(adapter.fixture_count(), count);
        println!("{taken}");
    }
}

/// The CPU time of this process so far.
fn cpu_nanoseconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes to `time`, which outlives it.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "this system has no clock of CPU time");
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
