// Package lazyregexp compiles a regular expression when it is first used. A program that compiles all of its expressions at its start
// spends a tenth of that start on verbs that it does not run.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns what compiles an expression at its first call. It panics then if the expression is wrong.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
