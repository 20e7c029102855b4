package measure

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
