package canon

// Tokens of structure: above every vocabulary, so that no text can look like them. Each counts as one token.
const (
	Tool uint32 = 0xA0000001 // begins the definition of a tool

	RoleSystem    uint32 = 0xA0000002
	RoleDeveloper uint32 = 0xA0000003
	RoleUser      uint32 = 0xA0000004
	RoleAssistant uint32 = 0xA0000005
	RoleTool      uint32 = 0xA0000006
	RoleOther     uint32 = 0xA0000007 // the name of the role and Sep follow

	Text       uint32 = 0xA0000010
	ToolCall   uint32 = 0xA0000011
	ToolResult uint32 = 0xA0000012
	Thinking   uint32 = 0xA0000013
	Image      uint32 = 0xA0000014
	Document   uint32 = 0xA0000015
	Audio      uint32 = 0xA0000016
	Other      uint32 = 0xA0000017

	Sep uint32 = 0xA000001E
	End uint32 = 0xA000001F

	Media     uint32 = 0xB0000000 // with 28 bits of a digest below
	MediaBits uint32 = 0x0FFFFFFF
)

// roles has the token of every role that has one of its own.
var roles = map[string]uint32{
	"system": RoleSystem, "developer": RoleDeveloper, "user": RoleUser, "assistant": RoleAssistant, "tool": RoleTool,
}
