package manifest

import (
	"fmt"
	"strings"
)

// Clip shortens a long value for a manifest: what it begins with and ends with, and how much is left out.
func Clip(value string) string { return ClipTo(value, 400) }

// ClipTo is Clip to about so many bytes. What is less than twice as long stays whole.
func ClipTo(value string, size int) string {
	if len(value) <= 2*size {
		return value
	}
	head, tail := value[:size/2], value[len(value)-size/2:]
	return fmt.Sprintf("%s ... %d bytes ... %s", strings.ToValidUTF8(head, ""), len(value)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
}
