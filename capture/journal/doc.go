// Package journal writes and reads what a session of a capture leaves on disk while it runs: a text file that only grows.
//
// A line is the CRC-32C of its JSON in eight hexadecimal digits, a blank, the JSON, and LF. It holds integers and words of
// closed lists, besides the trace's id, the tokenizer and the names of models. doc/spec/capture.md 9.1 has every line.
//
// Files: session.go (the folder of a capture, and its lock), writer.go and append.go (a line each time something happens),
// reader.go, parse.go and apply.go (bytes to a Session, up to the first line that is not as the writer writes it), words.go
// (closed lists), lines.go (what the lines hold).
package journal
