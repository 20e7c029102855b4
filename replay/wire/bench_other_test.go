//go:build !unix

package wire

const sinkEnv = "AGENTX_WIRE_SINK"

func runSink() {}
