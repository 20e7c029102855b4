package wire

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(sinkEnv) != "" {
		runSink()
		return
	}
	goleak.VerifyTestMain(m)
}
