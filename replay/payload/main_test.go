package payload

import (
	"os"
	"testing"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

func TestMain(m *testing.M) {
	status := m.Run()
	cachetest.RemoveRoot()
	os.Exit(status)
}
