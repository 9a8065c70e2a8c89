//! Clients in Rust: reqwest alone, and async-openai. The first argument names one.
//!
//! Prints a line of JSON for each step, `CLIENT_ROUNDS` times.

use std::{env, error::Error};

use async_openai::{Client, config::OpenAIConfig};
use futures_util::StreamExt;
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn weather() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}])
}

fn schema() -> Value {
    let properties = json!({"answer": {"type": "integer"}, "ok": {"type": "boolean"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["answer", "ok"],
        "additionalProperties": false});
    json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}})
}

fn asked(text: &str, more: Value) -> Outcome<Value> {
    let mut body = json!({"model": env::var("CLIENT_MODEL")?, "max_tokens": 16, "temperature": 0.0,
        "messages": [{"role": "user", "content": text}]});
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    Ok(body)
}

fn base() -> Outcome<String> {
    Ok(match env::var("CLIENT_ROAD").as_deref() {
        Ok("gateway") => format!("{}/openai/v1", env::var("CORTEX_REPLAY_GATEWAY")?),
        _ => "https://api.openai.com/v1".into(),
    })
}

enum Sdk {
    Reqwest(reqwest::Client),
    AsyncOpenai(Client<OpenAIConfig>),
}

impl Sdk {
    fn of(name: &str) -> Outcome<Self> {
        Ok(match name {
            "reqwest" => Self::Reqwest(reqwest::Client::new()),
            _ => Self::AsyncOpenai(Client::with_config(OpenAIConfig::new().with_api_base(base()?))),
        })
    }

    async fn ask(&self, body: Value) -> Outcome<Value> {
        Ok(match self {
            Self::Reqwest(client) => serde_json::from_str(&post(client, body).await?)?,
            Self::AsyncOpenai(client) => client.chat().create_byot(body).await?,
        })
    }

    async fn stream(&self, body: Value) -> Outcome<Vec<Value>> {
        match self {
            Self::Reqwest(client) => Ok(post(client, body).await?.split("\n\n").map(Value::from).collect()),
            Self::AsyncOpenai(client) => {
                let mut chunks = client.chat().create_stream_byot::<_, Value>(body).await?;
                let mut pieces = Vec::new();
                while let Some(chunk) = chunks.next().await {
                    pieces.push(chunk?["choices"].clone());
                }
                Ok(pieces)
            }
        }
    }
}

async fn post(client: &reqwest::Client, body: Value) -> Outcome<String> {
    let key = env::var("OPENAI_API_KEY").unwrap_or_default();
    let answer = client.post(format!("{}/chat/completions", base()?)).bearer_auth(key).json(&body).send().await?;
    let is_good = answer.status().is_success();
    let text = answer.text().await?;
    if is_good { Ok(text) } else { Err(text.into()) }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let name = env::args().nth(1).unwrap_or_default();
    let sdk = Sdk::of(&name)?;
    let rounds: u32 = env::var("CLIENT_ROUNDS").unwrap_or("1".into()).parse()?;
    for _ in 0..rounds {
        let message = |answer: Value| answer["choices"][0]["message"].clone();
        let plain = message(sdk.ask(asked("Hello", json!({}))?).await?);
        println!("{}", json!({"step": format!("{name}.plain"), "text": plain["content"]}));
        let pieces = sdk.stream(asked("Stream #unicode", json!({"stream": true}))?).await?;
        println!("{}", json!({"step": format!("{name}.stream"), "pieces": pieces}));
        let tool = message(sdk.ask(asked("#tool in Paris?", json!({"tools": weather()}))?).await?);
        println!("{}", json!({"step": format!("{name}.tool"), "calls": tool["tool_calls"]}));
        let answer = message(sdk.ask(asked("#json", json!({"response_format": schema()}))?).await?);
        let parsed: Value = serde_json::from_str(answer["content"].as_str().unwrap_or_default())?;
        println!("{}", json!({"step": format!("{name}.structured"), "parsed": parsed}));
    }
    Ok(())
}
