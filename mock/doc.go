// Package mock is an inference server without a model, for tests and demonstrations of clients.
//
// It speaks the APIs of OpenAI and Anthropic, answers with common English words, and follows a time model, a prefix cache and a list of faults
// that its Config sets. It must cost little beside its clients: it reads a request body once into a pooled buffer, scans it
// once, and answers in as few writes as the time model allows.
//
//	server := mock.New(mock.Config{TTFT: 20 * time.Millisecond})
//	err := server.Serve(ctx, listener)
//
// # Endpoints
//
//	POST /v1/chat/completions   messages with string or text-part contents
//	POST /v1/completions        prompt as a string or as an array of token ids
//	POST /v1/messages           Anthropic's: system, messages with string or part contents
//	POST /v1/responses          OpenAI's: instructions, input as a string or as a list of items
//	GET  /v1/models             one model, "mock"
//	GET  /health                200
//	POST /reset_prefix_cache    200; the prefix cache is empty
//	GET  /metrics               Prometheus text
//	GET  /stats                 Stats as JSON
//
// # Tokens
//
// There is no tokenizer here. A prompt of token ids has as many tokens as ids. A text prompt has a quarter of its contents'
// bytes, rounded, unless Config.CountTokens counts them. An answer has exactly max_completion_tokens (else max_tokens, else
// 16) tokens, with or without ignore_eos, one per chunk of a stream; each is a common English word behind a space. A request
// whose tool_choice names a tool gets a call of that tool, with the words as its argument "text".
//
// # Capacity
//
// Requests do not wait for one another, unless Config limits its slots. Then the server is a queueing model (type capacity)
// that is driven by a clock: arithmetic over the instants at which requests arrive and their clients leave.
//
// # What is not checked
//
// A body must be JSON, and the fields that are read must have the right type. The model's name, roles, sampling parameters,
// tools and all else are not checked. A key that occurs twice is read twice: the last number, flag or name counts, and all
// messages and contents do. Bytes that are not UTF-8 are kept as they are.
package mock
