// Package canon turns bodies of requests to inference APIs into canonical streams of tokens: doc/spec/capture.md 5.
//
//	prompt, err := canon.Parse(canon.Chat, body)
//	for _, s := range prompt.Segments {
//		...
//	}
//
// A stream has segments: a tool, or one block of a message, with the role of the message before its first block. Structure
// is tokens above every vocabulary, text is tokenized part by part, so equal parts have equal tokens in every API and in
// every spelling of the JSON around them. If a client only appends to its messages, the stream only grows.
//
// Parse is a pure function and knows no tokenizer and no session. Package chain tokenizes the parts that a session has not
// had before, and cuts streams into blocks. A prompt refers to the body, which must not change while the prompt is in use.
package canon

// Version names the rules by which streams are made. Other rules get another name.
const Version = "canon-1"
