// Package demo has the traces that the binary contains, for trials and tests without recorded data.
//
// They have the format of kv-cache-tester's v8 set, every shape that this set is known to have, and a few more. None was
// recorded. Prompts and waits are short: a replay takes seconds. Each trace has the name of its shape:
//
//	append     every prompt is a prefix of the next
//	stream     the same, streamed; one response has no time of its first token
//	churn      no prompt ends with a whole block, and sometimes the last whole block changes
//	edit       less than a tenth of the prompt is replaced at its end
//	pullback   more than a tenth of it is removed
//	reset      the next prompt shares nothing with the one before
//	twice      a retry: the same prompt twice
//	aligned    prompts that end with a whole block, and a response of no tokens
//	gaps       requests without api_time, after which think_time counts from the start of the request before, and without think_time
//	siblings   two subagents in parallel, with the same system prompt; the parent waits for both
//	late-join  the parent joins the subagent some turns after the spawn
//	background a subagent that the parent never joins, and that runs during several turns
//	models     short requests to another model between the turns, streamed and not
//	hole       a request with many new blocks is missing in the record, and the next prompt does not have them
//	family     not in the public set: a subagent that begins with its parent's prompt, and so shares ids with it
//	everything not in the public set: most shapes in one long trace
//
// The digests of these bytes stand in tests and in the keys of caches: demo_test.go asserts the shape of each.
//
//	convert.Options{Inputs: []string{"demo"}, Source: hfsource.Options{Embedded: map[string][]byte{"demo": demo.JSONL()}}}
package demo

import _ "embed"

// SHA256 is the digest of JSONL, in hexadecimal. A change of it gives every dataset of the demo another key.
const SHA256 = "345a54cb798a4b3b3305ef89248d8653f52f0c31d964d095866b640bb91f0af9"

//go:embed demo.jsonl
var jsonl []byte

// JSONL returns the traces, one JSON object per line, in the order of their ids. The slice is shared and must not be changed.
func JSONL() []byte { return jsonl }
