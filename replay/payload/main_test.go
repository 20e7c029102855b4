package payload

import (
	"os"
	"testing"

	"github.com/agentx/agentx/internal/cachetest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	cachetest.RemoveRoot()
	os.Exit(status)
}
