// Package session tells which session and which agent a request belongs to, and how long sessions live. It reads heads of
// requests and what capture/canon has read of bodies; it never sees a prompt. The ids that clients send are keys of maps in
// memory and are shown nowhere. doc/spec/capture.md sections 3 and 7.2 have the rules.
package session
