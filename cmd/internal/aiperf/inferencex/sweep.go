package inferencex

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
)

// SweepPoint is what the sweep collector reads from the table of a run. What it does not find is 0.
type SweepPoint struct {
	Requests   int    `json:"num_requests"`
	RPS        Figure `json:"throughput_rps"`
	OutputTPS  Figure `json:"output_throughput_tps"`
	TotalTPS   Figure `json:"total_throughput_tps"`
	InputTPS   Figure `json:"input_throughput_tps"` // total less output
	TTFTMean   Figure `json:"mean_ttft_ms"`
	TTFTP50    Figure `json:"p50_ttft_ms"`
	TTFTP90    Figure `json:"p90_ttft_ms"`
	TTFTP99    Figure `json:"p99_ttft_ms"`
	TPOTMean   Figure `json:"mean_tpot_ms"`
	TPOTP50    Figure `json:"p50_tpot_ms"`
	TPOTP90    Figure `json:"p90_tpot_ms"`
	TPOTP99    Figure `json:"p99_tpot_ms"`
	LatencyAvg Figure `json:"mean_latency_ms"`
	LatencyP50 Figure `json:"p50_latency_ms"`
	LatencyP90 Figure `json:"p90_latency_ms"`
	LatencyP99 Figure `json:"p99_latency_ms"`
}

// SweepTable reads the content of a table. It splits every line at its commas, also at those within quotes, and stops at
// the first line that has not as many cells as the header above it.
func SweepTable(data []byte) *SweepPoint {
	cells := map[string]map[string]float64{}
	var header []string
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, maxAggregate)
	for in.Scan() {
		line := strings.Split(strings.TrimSpace(in.Text()), ",")
		if len(line) == 1 && line[0] == "" {
			continue
		}
		if line[0] == "Metric" {
			header = line
			continue
		}
		if len(line) != len(header) {
			break
		}
		of := map[string]float64{}
		for k, name := range header[1:] {
			of[name], _ = strconv.ParseFloat(line[k+1], 64)
		}
		cells[line[0]] = of
	}
	return sweepPoint(func(metric, column string) Figure { return Figure(cells[metric][column]) })
}

func sweepPoint(cell func(metric, column string) Figure) *SweepPoint {
	const (
		ttft, itl, latency = "Time to First Token (ms)", "Inter Token Latency (ms)", "Request Latency (ms)"
		output, total      = "Output Token Throughput (tokens/sec)", "Total Token Throughput (tokens/sec)"
	)
	return &SweepPoint{
		Requests: int(cell("Request Count", "Value")), RPS: cell("Request Throughput (requests/sec)", "Value"),
		OutputTPS: cell(output, "Value"), TotalTPS: cell(total, "Value"), InputTPS: cell(total, "Value") - cell(output, "Value"),
		TTFTMean: cell(ttft, "avg"), TTFTP50: cell(ttft, "p50"), TTFTP90: cell(ttft, "p90"), TTFTP99: cell(ttft, "p99"),
		TPOTMean: cell(itl, "avg"), TPOTP50: cell(itl, "p50"), TPOTP90: cell(itl, "p90"), TPOTP99: cell(itl, "p99"),
		LatencyAvg: cell(latency, "avg"), LatencyP50: cell(latency, "p50"), LatencyP90: cell(latency, "p90"), LatencyP99: cell(latency, "p99"),
	}
}
