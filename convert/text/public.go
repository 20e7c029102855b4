package text

import "strings"

// knownNames has the names of types and items that clients are known to write, in any version, and those that readers give what has no name.
var knownNames = map[string]bool{}

func init() {
	for _, names := range []string{
		// Claude Code: types of rows, and of rows of the system.
		`line system user assistant attachment progress summary ai-title custom-title last-prompt file-history-snapshot queue-operation continued-in
		mode permission-mode pr-link tag agent-name agent-color agent-setting worktree-state task-summary attribution-snapshot content-replacement
		api-request api-request-blob api-request-shape atis-latch cost-state tools-used
		system/compact_boundary system/microcompact_boundary system/local_command system/api_error system/informational system/turn_duration
		system/stop_hook_summary system/away_summary system/model_refusal_fallback`,
		// Codex: records, events and items.
		`session_meta response_item turn_context event_msg compacted world_state inter_agent_communication inter_agent_communication_metadata
		token_usage_record realtime_item security_risk_score state message reasoning function_call function_call_output custom_tool_call
		custom_tool_call_output local_shell_call web_search_call tool_search_call tool_search_output image_generation_call agent_message
		additional_tools compaction context_compaction ghost_snapshot token_count user_message agent_reasoning task_started turn_started
		task_complete turn_aborted thread_rolled_back context_compacted entered_review_mode exited_review_mode`,
		// OpenTelemetry: operations, and rows that are no spans.
		`logs metrics chat text_completion generate_content invoke_agent create_agent invoke_workflow execute_tool embeddings retrieval plan
		tool_start tool_end tool_error request_end request_payload`,
	} {
		for _, name := range strings.Fields(names) {
			knownNames[name] = true
		}
	}
}

// Public returns counts that can be shown to anyone: a name that no client is known to write may be text, and is counted as other.
func Public(counts map[string]int) map[string]int {
	public := make(map[string]int, len(counts))
	for name, n := range counts {
		if kind, of, open := strings.Cut(name, ":"); open && !knownNames[of] {
			name = kind + ":other"
		}
		public[name] += n
	}
	return public
}
