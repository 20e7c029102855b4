package manifest

import (
	"fmt"
	"strings"
)

// Clip shortens a long value for a manifest to about 400 bytes of its beginning and end.
func Clip(value string) string { return ClipTo(value, 400) }

// ClipTo shortens a value to about size bytes of its beginning and end, and says how many bytes it left out. A value up to
// twice as long stays whole.
func ClipTo(value string, size int) string {
	if len(value) <= 2*size {
		return value
	}
	head, tail := value[:size/2], value[len(value)-size/2:]
	return fmt.Sprintf("%s ... %d bytes ... %s", strings.ToValidUTF8(head, ""), len(value)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
}
