//! Answers requests from a folder with the `ReplayAdapter` of `crtx-llm`; JSON lines in and out.
//!
//! `crtx_peer answer FOLDER` prints `{"fixture_count": n}`, or `{"err": ...}` and no more if the
//! folder is refused; then for each request `{"ok": response}` or `{"err": {variant, display}}`.
//! `crtx_peer hash` prints `{"prompt_hash": ...}` for each request.

use std::env;
use std::io::{self, BufRead, Write};
use std::process::exit;

use cortex_llm::{LlmAdapter, LlmError, LlmRequest, ReplayAdapter};
use futures::executor::block_on;
use serde_json::{json, Value};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hash"] => answer_all(|request| json!({"prompt_hash": request.prompt_hash()})),
        ["answer", folder] => match ReplayAdapter::new(*folder) {
            Ok(adapter) => {
                println!("{}", json!({"fixture_count": adapter.fixture_count()}));
                answer_all(|request| match block_on(adapter.complete(request)) {
                    Ok(response) => json!({"ok": response}),
                    Err(error) => shown(&error),
                })
            }
            Err(error) => {
                println!("{}", shown(&error));
                Ok(())
            }
        },
        _ => {
            eprintln!("usage: crtx_peer answer FOLDER | crtx_peer hash");
            exit(2)
        }
    }
}

/// One line out for each line in.
fn answer_all(answer: impl Fn(LlmRequest) -> Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request = serde_json::from_str(&line?).expect("each line is a request of crtx-llm");
        writeln!(out, "{}", answer(request))?;
    }
    Ok(())
}

fn shown(error: &LlmError) -> Value {
    let variant = match error {
        LlmError::Transport(_) => "Transport",
        LlmError::Upstream(_) => "Upstream",
        LlmError::InvalidRequest(_) => "InvalidRequest",
        LlmError::Timeout { .. } => "Timeout",
        LlmError::Parse(_) => "Parse",
        LlmError::NoFixture { .. } => "NoFixture",
        LlmError::FixtureIntegrityFailed(_) => "FixtureIntegrityFailed",
        LlmError::Io(_) => "Io",
    };
    json!({"err": {"variant": variant, "display": error.to_string()}})
}
