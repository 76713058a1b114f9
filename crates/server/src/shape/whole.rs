//! Answers that are no stream: one JSON object.

use super::{Dialect, Place, Shape, Voice, letter};

impl Voice {
    /// The whole answer of `tokens` tokens as one JSON object.
    pub(crate) fn whole(&mut self, tokens: u32) -> Vec<u8> {
        self.said = tokens;
        self.text = (1..=tokens).map(|i| letter(i, self.wide)).collect();
        if let Shape::Generate { .. } = self.shape {
            let mut body = Vec::new();
            self.native_frame(&mut body, true, true);
            return body;
        }
        let (id, usage, reason, text) = (&self.id, self.usage(Place::Whole), self.finish, &self.text);
        let frame = self.frame.replace("chat.completion.chunk", "chat.completion");
        let answer = match self.shape {
            Shape::Chat => {
                let more = self.message_fields();
                format!(r#""message":{{"role":"assistant","content":"{text}"{more}}}"#)
            }
            _ => format!(r#""text":"{text}""#),
        };
        let (choice, end) = (self.choice_fields(tokens), self.body_fields());
        format!(
            r#"{{"id":"{id}"{frame},"choices":[{{"index":0,{answer},"logprobs":null,"finish_reason":"{reason}"{choice}}}]{usage}{end}}}"#
        )
        .into_bytes()
    }

    fn message_fields(&self) -> &'static str {
        match self.dialect {
            Dialect::Plain => "",
            Dialect::Vllm => {
                r#","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null"#
            }
            Dialect::Sglang => r#","reasoning_content":null"#,
        }
    }

    /// What stands in the choice behind its finish reason.
    fn choice_fields(&self, tokens: u32) -> String {
        let (ids, prompt) = (self.ids(tokens), &self.prompt_ids);
        match (self.dialect, self.shape) {
            (Dialect::Plain, _) => r#","stop_reason":null"#.to_owned(),
            (Dialect::Sglang, _) => r#","matched_stop":null"#.to_owned(),
            (Dialect::Vllm, Shape::Chat) => {
                format!(r#","stop_reason":null,"token_ids":{ids},"routed_experts":null"#)
            }
            (Dialect::Vllm, _) => format!(
                r#","stop_reason":null,"token_ids":{ids},"prompt_logprobs":null,"prompt_token_ids":{prompt},"routed_experts":null"#
            ),
        }
    }

    /// What stands in the body behind its usage.
    fn body_fields(&self) -> String {
        let (count, prompt, version) = (self.claimed(), &self.prompt_ids, self.fingerprint());
        let transfers = r#","kv_transfer_params":null,"ec_transfer_params":null,"metrics":null"#;
        match (self.dialect, self.shape) {
            (Dialect::Plain, _) => String::new(),
            (Dialect::Sglang, _) => format!(
                r#","metadata":{{"weight_version":"default","weight_versions":[{{"version":"default","start":0,"end":{count}}}]}}"#
            ),
            (Dialect::Vllm, Shape::Chat) => format!(
                r#","service_tier":null{version},"prompt_logprobs":null,"prompt_token_ids":{prompt},"prompt_text":null{transfers}"#
            ),
            (Dialect::Vllm, _) => format!(r#","service_tier":null{version}{transfers}"#),
        }
    }
}
