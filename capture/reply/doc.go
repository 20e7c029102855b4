// Package reply reads what a model answered, as its bytes pass: how long it is, of what kind, why it ended and what its API
// counted. It changes nothing, refuses nothing and keeps no text longer than a request lasts: what is wrong with a reply becomes
// a mark. doc/spec/capture.md sections 4 and 6.3 have the rules.
package reply
