-- Wireshark dissector of the Fanin wire protocol (SPEC.md): the packets of the offload on UDP port 4791.
--
-- `fanin dissector --install` puts it into the folder of plugins. All other packets of that port are left to Wireshark's
-- own dissector, which also shows the transport header of these. The tables are generated from fanin_wire: change the
-- definitions there, then `make tables`.

-- tables
local WIRE_VERSION = 2
local UDP_PORT = 4791
local FIRST_SOURCE_PORT = 49152
local COLLECTIVE_QPN = 16387073
local FIRST_OPCODE = 192
local ICRC_SIZE = 4
local UD_SEND_ONLY = 100
local DETH_SIZE = 8
local QUEUE_KEY = 16387073
local MAX_SOURCE = 63
local CLASS_MASK = 96
local CLASS_UNIT = 32
local NAMES = {
  opcode = { [192] = "CONTRIBUTION", [193] = "RESULT", [194] = "PROBE", [195] = "NEED", [196] = "WAIT", [197] = "ACK", [198] = "CONFIG", [199] = "CONFIG_ACK", [200] = "LEAVE", [201] = "LEAVE_ACK", [202] = "QUERY", [203] = "STATUS", [204] = "ABORT", [205] = "NAK", [206] = "KEEPALIVE" },
  op = { [0] = "NONE", [1] = "SUM", [2] = "MIN", [3] = "MAX", [4] = "MEAN", [5] = "PROD", [6] = "LAND", [7] = "LOR", [8] = "LXOR", [9] = "BAND", [10] = "BOR", [11] = "BXOR", [12] = "MINLOC", [13] = "MAXLOC" },
  dtype = { [0] = "NONE", [1] = "F32", [2] = "F64", [3] = "I32", [4] = "I64", [5] = "I8", [6] = "I16", [7] = "U8", [8] = "U16", [9] = "U32", [10] = "U64", [11] = "F16", [12] = "BF16", [13] = "BOOL", [14] = "C64", [15] = "C128", [16] = "F32_I32", [17] = "F64_I32", [18] = "I16_I32", [19] = "I32_I32", [20] = "I64_I32" },
  status = { [0] = "SUCCESS", [1] = "PENDING", [2] = "BUFFER_ERROR", [3] = "LOCAL_PROTECTION_ERROR", [4] = "PEER_LOST", [5] = "TIMEOUT", [6] = "OP_MISMATCH", [7] = "NOT_CONFIGURED", [8] = "JID_IN_USE", [9] = "NO_RESOURCES", [10] = "ABORTED", [11] = "FLUSHED", [12] = "NOT_SUPPORTED", [13] = "INVALID_REQUEST", [14] = "VERSION_MISMATCH", [15] = "DEVICE_LOST", [16] = "QUEUE_FULL", [17] = "NO_DEVICE", [18] = "PERMISSION_DENIED", [19] = "MEMBERS_MISMATCH", [20] = "CQ_OVERRUN", [21] = "TOO_FEW_LANES", [22] = "DRAINING", [23] = "PATH_MTU" },
  route = { [0] = "LOCAL", [1] = "TREE", [2] = "RING" },
  class = { [0] = "NONE", [1] = "ONE", [2] = "ALL" },
}
local HEADERS = {
  BTH = {
    size = 12,
    { name = "opcode", bits = 8, offset = 0, form = "code",
      text = "what the packet is; 0xC0 to 0xCE are the offload's" },
    { name = "solicited", bits = 1, offset = 8, form = "number",
      text = "0" },
    { name = "migreq", bits = 1, offset = 9, form = "number",
      text = "0" },
    { name = "padcount", bits = 2, offset = 10, form = "number", unit = "byte",
      text = "bytes of padding behind the payload, 0 to 3" },
    { name = "version", bits = 4, offset = 12, form = "number",
      text = "transport version, 0" },
    { name = "pkey", bits = 16, offset = 16, form = "hexadecimal",
      text = "partition key, 0xffff" },
    { name = "fecn", bits = 1, offset = 32, form = "number",
      text = "forward congestion mark; not covered by the ICRC" },
    { name = "becn", bits = 1, offset = 33, form = "number",
      text = "backward congestion mark; not covered by the ICRC" },
    { name = "resv6", bits = 6, offset = 34, form = "number",
      text = "0" },
    { name = "dqpn", bits = 24, offset = 40, form = "hexadecimal",
      text = "destination queue pair, 0xfa0c01" },
    { name = "ackreq", bits = 1, offset = 64, form = "number",
      text = "0" },
    { name = "resv7", bits = 7, offset = 65, form = "number",
      text = "0" },
    { name = "psn", bits = 24, offset = 72, form = "number",
      text = "running number of the sender's packets; not looked at, positions take its place" },
  },
  CETH = {
    size = 56,
    { name = "version", bits = 8, offset = 0, form = "number",
      text = "version of this protocol, 2" },
    { name = "op", bits = 8, offset = 8, form = "code",
      text = "operation" },
    { name = "dtype", bits = 8, offset = 16, form = "code",
      text = "type of the elements" },
    { name = "flags", bits = 8, offset = 24, form = "hexadecimal",
      text = "flags and contributor class" },
    { name = "jid", bits = 32, offset = 32, form = "number",
      text = "job id" },
    { name = "key", bits = 32, offset = 64, form = "hexadecimal",
      text = "the job's random 32-bit key: its incarnation" },
    { name = "position", bits = 32, offset = 96, form = "number",
      text = "place in the job's stream of segments, modulo 2^32; ACK: the base of its maps" },
    { name = "mid", bits = 32, offset = 128, form = "number",
      text = "number of the message within the job" },
    { name = "sid", bits = 32, offset = 160, form = "number",
      text = "number of the segment within the message" },
    { name = "seg", bits = 16, offset = 192, form = "number",
      text = "position modulo the lease: the slot, relative to the lease; packets that name somebody: whose children" },
    { name = "length", bits = 16, offset = 208, form = "number", unit = "byte",
      text = "bytes of payload or body behind the CETH, without padding" },
    { name = "status", bits = 8, offset = 224, form = "code",
      text = "a status code; CONTRIBUTION and RESULT: not 0 poisons the position" },
    { name = "source", bits = 8, offset = 232, form = "number",
      text = "tree: the child's bit at its parent, in both directions; ring: node index of the sender" },
    { name = "segment_index", bits = 8, offset = 240, form = "number",
      text = "number of the packet within its super-packet, which is its IPv4 identification; else 0" },
    { name = "lane", bits = 8, offset = 248, form = "number",
      text = "which of the lanes of sender and receiver the packet belongs to" },
    { name = "contributions", bits = 32, offset = 256, form = "number", unit = "rank",
      text = "how many ranks' data are summed in the payload" },
    { name = "token", bits = 32, offset = 288, form = "hexadecimal",
      text = "chosen by the sender of a PROBE, QUERY or CONFIG, returned in the answer; else 0" },
    { name = "node_bitmap", bits = 64, offset = 320, form = "bitmap",
      text = "set of children or nodes; meaning by opcode" },
    { name = "rank_bitmap", bits = 64, offset = 384, form = "bitmap",
      text = "CONTRIBUTION of a tree: the ranks of the sending node; CONTRIBUTION and RESULT of a ring: nodes that want the data and do not have them; ACK: map of RESULTs; CONFIG_ACK: ranks missing; ABORT, LEAVE: IPv4 address of the lost device" },
  },
  CONFIG = {
    size = 40,
    { name = "boot_id", bits = 64, offset = 0, form = "hexadecimal",
      text = "random number of the sender's start; another one on a known job means that the sender restarted" },
    { name = "digest_high", bits = 64, offset = 64, form = "hexadecimal",
      text = "first half of the digest over ordered members, tree and parameters" },
    { name = "digest_low", bits = 64, offset = 128, form = "hexadecimal",
      text = "second half" },
    { name = "slots", bits = 32, offset = 192, form = "number", unit = "slot",
      text = "N: slots offered, a power of two" },
    { name = "window", bits = 32, offset = 224, form = "number", unit = "position",
      text = "W: positions in flight offered, at most N / 2" },
    { name = "chunk", bits = 32, offset = 256, form = "number", unit = "byte",
      text = "bytes of a full segment, a power of two" },
    { name = "route", bits = 8, offset = 288, form = "code",
      text = "1 to a device above, 2 to the next node of a ring" },
    { name = "hops", bits = 8, offset = 296, form = "number", unit = "hop",
      text = "number of HOP entries that follow" },
    { name = "last_lane", bits = 8, offset = 304, form = "number",
      text = "the highest lane that the job takes part in: 0 for one lane" },
    { name = "flags", bits = 8, offset = 312, form = "hexadecimal",
      text = "how the job computes: 1 wide partials, 2 reproducible in one run's path, 4 reproducible in its shape" },
  },
  HOP = {
    size = 32,
    { name = "address", bits = 128, offset = 0, form = "address",
      text = "IPv6 address of the device; IPv4 as ::ffff:a.b.c.d" },
    { name = "mask", bits = 64, offset = 128, form = "bitmap",
      text = "bits of all the children that the device waits for" },
    { name = "bit", bits = 8, offset = 192, form = "number",
      text = "bit of the device below it" },
    { name = "resv24", bits = 24, offset = 200, form = "number",
      text = "0" },
    { name = "resv32", bits = 32, offset = 224, form = "number",
      text = "0" },
  },
  CONFIG_ACK = {
    size = 8,
    { name = "slots", bits = 32, offset = 0, form = "number", unit = "slot",
      text = "N granted; on NO_RESOURCES the N that would fit" },
    { name = "window", bits = 32, offset = 32, form = "number", unit = "position",
      text = "W granted to the receiver" },
  },
  WAIT = {
    size = 8,
    { name = "oldest_age_us", bits = 32, offset = 0, form = "number", unit = "microsecond",
      text = "microseconds since the most silent of the missing children was heard, less those for which the sender stood still" },
    { name = "oldest_child", bits = 8, offset = 32, form = "number",
      text = "the bit of that child" },
    { name = "kind", bits = 8, offset = 40, form = "number",
      text = "whose children the node_bitmap names: 1 the sender's, 2 those of the device above it, and so on" },
    { name = "resv16", bits = 16, offset = 48, form = "number",
      text = "0" },
  },
}
local FLAGS = {
  { name = "has_data", mask = 0x1, text = "the payload is the segment's data" },
  { name = "wants_result", mask = 0x2, text = "CONTRIBUTION: the sender wants the data of the result" },
  { name = "wide", mask = 0x4, text = "the payload of a segment of small floats is f32" },
  { name = "hears_group", mask = 0x8, text = "CONTRIBUTION of a tree: the sender hears the multicast group of its parent" },
  { name = "ahead", mask = 0x10, text = "the data go ahead of the result" },
}
local CONFIG_FLAGS = {
  { name = "wide", mask = 0x1, text = "how the job computes" },
  { name = "reproducible_run", mask = 0x2, text = "how the job computes" },
  { name = "reproducible_shape", mask = 0x4, text = "how the job computes" },
}
local ELEMENTS = {
  [1] = { size = 4, kind = "float" },
  [2] = { size = 8, kind = "float" },
  [3] = { size = 4, kind = "int" },
  [4] = { size = 8, kind = "int" },
  [5] = { size = 1, kind = "int" },
  [6] = { size = 2, kind = "int" },
  [7] = { size = 1, kind = "uint" },
  [8] = { size = 2, kind = "uint" },
  [9] = { size = 4, kind = "uint" },
  [10] = { size = 8, kind = "uint" },
  [11] = { size = 2, kind = "other" },
  [12] = { size = 2, kind = "other" },
  [13] = { size = 1, kind = "uint" },
  [14] = { size = 8, kind = "other" },
  [15] = { size = 16, kind = "other" },
  [16] = { size = 8, kind = "other" },
  [17] = { size = 16, kind = "other" },
  [18] = { size = 8, kind = "other" },
  [19] = { size = 8, kind = "other" },
  [20] = { size = 16, kind = "other" },
}
local TAKES = {
  [1] = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true, [14] = true, [15] = true },
  [2] = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true },
  [3] = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true },
  [4] = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true },
  [5] = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = true },
  [6] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [13] = true },
  [7] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [13] = true },
  [8] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true, [13] = true },
  [9] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true },
  [10] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true },
  [11] = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true, [10] = true },
  [12] = { [16] = true, [17] = true, [18] = true, [19] = true, [20] = true },
  [13] = { [16] = true, [17] = true, [18] = true, [19] = true, [20] = true },
}
-- end of tables

-- The bytes that have a field, of a header that starts at `offset`.
local function range_of(tvb, offset, header, name)
  for _, row in ipairs(HEADERS[header]) do
    if row.name == name then
      return tvb(offset + row.byte, row.bytes)
    end
  end
end

-- The value of a field of at most 32 bits.
local function value_of(tvb, offset, header, name)
  for _, row in ipairs(HEADERS[header]) do
    if row.name == name then
      local value = range_of(tvb, offset, header, name):uint()
      if row.bits >= 8 then
        return value
      end
      return math.floor(value / 2 ^ (8 - row.offset % 8 - row.bits)) % 2 ^ row.bits
    end
  end
end

local FLAG_MASKS = {}
for _, flag in ipairs(FLAGS) do
  FLAG_MASKS[flag.name] = flag.mask
end

local function has_flag(flags, name)
  return math.floor(flags / FLAG_MASKS[name]) % 2 == 1
end

local fanin = Proto("fanin", "Fanin collective offload")
local own = DissectorTable.get("udp.port"):get_dissector(UDP_PORT)
local BTH_SIZE, TRANSPORT_SIZE = HEADERS.BTH.size, HEADERS.BTH.size + HEADERS.CETH.size
local MAX_ELEMENTS = 8 -- shown of the data
local CODES = {} -- opcode by name
for code, name in pairs(NAMES.opcode) do
  CODES[name] = code
end

fanin.prefs.check_icrc = Pref.bool("Check the ICRC", true, "Whether the checksum of each packet is computed")

-- Fields ------------------------------------------------------------------------------------------------------------

local PREFIXES = {
  BTH = "fanin.bth.",
  CETH = "fanin.",
  CONFIG = "fanin.config.",
  HOP = "fanin.hop.",
  CONFIG_ACK = "fanin.config_ack.",
  WAIT = "fanin.wait.",
}
local all_fields = {}

local function keep(field)
  all_fields[#all_fields + 1] = field
  return field
end

local function make_field(prefix, row)
  local abbreviation = prefix .. row.name
  local byte, bit = math.floor(row.offset / 8), row.offset % 8
  row.byte, row.bytes = byte, math.max(1, row.bits / 8)
  if row.form == "address" then
    return keep(ProtoField.ipv6(abbreviation, row.name, row.text))
  end
  local mask = row.bits < 8 and (2 ^ row.bits - 1) * 2 ^ (8 - bit - row.bits) or nil
  local base_of = (row.form == "number" and base.DEC) or (row.form == "code" and base.DEC_HEX) or base.HEX
  local names = NAMES[row.name]
  if row.unit then
    base_of, names = base.DEC + base.UNIT_STRING, { " " .. row.unit, " " .. row.unit .. "s" }
  end
  local kind = ProtoField["uint" .. math.max(8, row.bits)]
  return keep(kind(abbreviation, row.name, base_of, names, mask, row.text))
end

for header, rows in pairs(HEADERS) do
  for _, row in ipairs(rows) do
    row.field = make_field(PREFIXES[header], row)
  end
end
for prefix, flags in pairs({ ["fanin.flags."] = FLAGS, ["fanin.config.flags."] = CONFIG_FLAGS }) do
  for _, flag in ipairs(flags) do
    flag.field = keep(ProtoField.bool(prefix .. flag.name, flag.name, 8, nil, flag.mask, flag.text))
  end
end

local ICRC_STATUS = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }
local f = {
  kind = ProtoField.uint8("fanin.kind", "kind", base.HEX, NAMES.opcode, nil, "what the packet is"),
  class = ProtoField.uint8("fanin.class", "class", base.DEC, NAMES.class, CLASS_MASK, "how many ranks bring data"),
  body = ProtoField.bytes("fanin.body", "rest of the body", base.SPACE, "bytes of a later version"),
  data = ProtoField.bytes("fanin.data", "data", base.SPACE, "the payload"),
  elements = ProtoField.string("fanin.elements", "elements", base.ASCII, "the first elements of the data"),
  padding = ProtoField.bytes("fanin.padding", "padding", base.SPACE),
  icrc = ProtoField.uint32("fanin.icrc", "icrc", base.HEX, nil, nil, "the four bytes as they stand in the packet"),
  icrc_status = ProtoField.uint8("fanin.icrc.status", "icrc status", base.DEC, ICRC_STATUS),
  route = ProtoField.string("fanin.route", "route", base.ASCII, "whether the packet belongs to a tree or to a ring"),
  lost_device = ProtoField.ipv4("fanin.lost_device", "lost device", "address of the device that is lost, or at the other end of a path"),
  stream = ProtoField.uint32("fanin.stream", "stream", base.DEC, nil, nil, "number of the job (jid and key) in this capture"),
  message = ProtoField.uint32("fanin.message", "message", base.DEC, nil, nil, "number of the message in this capture"),
  response_in = ProtoField.framenum("fanin.response_in", "answer in", base.NONE, frametype.RESPONSE),
  response_to = ProtoField.framenum("fanin.response_to", "answer to", base.NONE, frametype.REQUEST),
  response_time = ProtoField.relative_time("fanin.response_time", "response time", "since the packet that this one answers"),
  duplicate_of = ProtoField.framenum("fanin.duplicate_of", "duplicate of", base.NONE, frametype.DUP_ACK),
  retransmission_of = ProtoField.framenum("fanin.retransmission_of", "retransmission of", base.NONE),
}
for _, field in pairs(f) do
  keep(field)
end
fanin.fields = all_fields

-- Expert information --------------------------------------------------------------------------------------------------

local x, all_experts = {}, {}
local function expert_info(name, text, group, severity)
  x[name] = ProtoExpert.new("fanin.expert." .. name, text, expert.group[group], expert.severity[severity])
  all_experts[#all_experts + 1] = x[name]
end
expert_info("short", "Shorter than its headers", "MALFORMED", "ERROR")
expert_info("bad_length", "Size, length and padcount disagree", "MALFORMED", "ERROR")
expert_info("short_body", "The body is shorter than its fields", "MALFORMED", "ERROR")
expert_info("bad_icrc", "Wrong ICRC", "CHECKSUM", "ERROR")
expert_info("unknown_kind", "Unknown opcode", "PROTOCOL", "ERROR")
expert_info("unknown_version", "Another version", "PROTOCOL", "ERROR")
expert_info("bad_source", "No such source: 0 to 63", "PROTOCOL", "ERROR")
expert_info("unknown_op", "Unknown operation", "PROTOCOL", "ERROR")
expert_info("unknown_dtype", "Unknown element type", "PROTOCOL", "ERROR")
expert_info("unsupported", "Devices do not compute this operation on this type", "PROTOCOL", "ERROR")
expert_info("bad_class", "No such contributor class, or data of nobody", "PROTOCOL", "ERROR")
expert_info("unknown_status", "Unknown status", "PROTOCOL", "WARN")
expert_info("failure", "A status other than SUCCESS", "RESPONSE_CODE", "NOTE")
expert_info("duplicate", "Duplicate: the same bytes from the same sender", "SEQUENCE", "NOTE")
expert_info("retransmission", "Retransmission", "SEQUENCE", "NOTE")
expert_info("missing_result", "No result of this contribution in the capture", "SEQUENCE", "WARN")
fanin.experts = all_experts

-- ICRC ----------------------------------------------------------------------------------------------------------------

local bits = bit32 or bit
local continue_crc -- (crc, string) -> crc
local CRC = {}
if bits then
  local bxor, band, rshift = bits.bxor, bits.band, bits.rshift
  for index = 0, 255 do
    local value = index
    for _ = 1, 8 do
      value = band(value, 1) == 1 and bxor(rshift(value, 1), 0xEDB88320) or rshift(value, 1)
    end
    CRC[index] = value
  end
  continue_crc = function(crc, text)
    for index = 1, #text do
      crc = bxor(CRC[band(bxor(crc, text:byte(index)), 255)], rshift(crc, 8))
    end
    return crc
  end
else -- a Lua with operators of its own, which older ones can not parse
  continue_crc = load([[
    local CRC = ...
    for index = 0, 255 do
      local value = index
      for _ = 1, 8 do
        value = value & 1 == 1 and (value >> 1) ~ 0xEDB88320 or value >> 1
      end
      CRC[index] = value
    end
    return function(crc, text)
      for index = 1, #text do
        crc = CRC[(crc ~ text:byte(index)) & 255] ~ (crc >> 8)
      end
      return crc
    end]])(CRC)
end

local function be16(value)
  return string.char(math.floor(value / 256) % 256, value % 256)
end

local function address_bytes(address)
  local a, b, c, d = tostring(address):match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  return a and string.char(tonumber(a), tonumber(b), tonumber(c), tonumber(d))
end

-- The ICRC of `size` bytes, as the four bytes that it has in the packet; nil where the network is not IPv4. The IP header
-- is rebuilt as a receiver does that does not see it (SPEC.md, section 3).
local function icrc_of(bytes, pinfo, ports, segment_index)
  local source, destination = address_bytes(pinfo.net_src), address_bytes(pinfo.net_dst)
  if not (source and destination) then
    return nil
  end
  local size = #bytes + ICRC_SIZE
  local ip = "\x45\xff" .. be16(size + 28) .. be16(segment_index) .. "\x40\x00\xff\x11\xff\xff" .. source .. destination
  local udp = be16(ports.source) .. be16(ports.destination) .. be16(size + 8) .. "\xff\xff"
  local masked = bytes:sub(1, 4) .. "\xff" .. bytes:sub(6)
  local crc = continue_crc(0xFFFFFFFF, ("\xff"):rep(8) .. ip .. udp .. masked)
  crc = (0xFFFFFFFF - crc % 2 ^ 32) % 2 ^ 32
  return string.char(crc % 256, math.floor(crc / 2 ^ 8) % 256, math.floor(crc / 2 ^ 16) % 256, math.floor(crc / 2 ^ 24))
end

-- What belongs together -------------------------------------------------------------------------------------------------

-- Facts of a packet that others tell, by its frame and its place in it. Found when Wireshark reads the capture from its
-- start; it may dissect frames again in any order.
local facts, streams, messages, stream_count, message_count, copies, sent, waiting, asked
function fanin.init()
  facts, streams, messages, stream_count, message_count = {}, {}, {}, 0, 0
  copies, sent, waiting, asked = {}, {}, {}, {}
end

local function answer(fact, request, pinfo)
  fact.response_to = fact.response_to or request.frame
  fact.response_time = fact.response_time or pinfo.rel_ts - request.time
  request.fact.response_in = request.fact.response_in or pinfo.number
end

-- A frame that is seen where it leaves and where it arrives, or at several devices, is no duplicate, if the capture tells
-- these apart.
local interface = Field.new("frame.interface_id")
local function direction(pinfo, turned)
  local way, seen_by = pinfo.p2p_dir, interface()
  if turned and (way == 0 or way == 1) then
    way = 1 - way
  end
  return way .. "@" .. (seen_by and seen_by.value or 0)
end

local QUESTIONS = { PROBE = true, QUERY = true, CONFIG = true, LEAVE = true }
local ANSWERS = {
  NEED = "PROBE", WAIT = "PROBE", RESULT = "PROBE", ACK = "PROBE", STATUS = "QUERY", CONFIG_ACK = "CONFIG",
  LEAVE_ACK = "LEAVE",
}

local function relate(fact, packet, pinfo)
  local kind, source, destination = packet.kind, tostring(pinfo.net_src), tostring(pinfo.net_dst)
  local function key(...)
    return table.concat({ packet.jid, packet.key, ... }, "|")
  end
  local job, message = key(), key(packet.mid)
  if not streams[job] then
    streams[job], stream_count = stream_count, stream_count + 1
  end
  fact.stream = streams[job]
  if packet.has_place then
    if not messages[message] then
      messages[message], message_count = message_count, message_count + 1
    end
    fact.message = messages[message]
  end

  local copy = key("copy", kind, source, destination, direction(pinfo), packet.psn, packet.icrc)
  if copies[copy] and kind ~= "KEEPALIVE" then
    fact.duplicate_of = copies[copy]
    return -- it says nothing that the first one did not say
  end
  copies[copy] = pinfo.number

  local position = key(packet.position, packet.mid, packet.sid)
  if kind == "CONTRIBUTION" or kind == "RESULT" then
    local again = table.concat({ position, kind, source, destination, direction(pinfo), packet.ahead and 1 or 0 }, "|")
    fact.retransmission_of = sent[again]
    sent[again] = sent[again] or pinfo.number
  end
  local request = { frame = pinfo.number, time = pinfo.rel_ts, fact = fact, to = destination, bit = packet.source }
  if kind == "CONTRIBUTION" then
    for _, place in ipairs({ "to " .. source, "from " .. destination }) do -- a RESULT to it; one to a group
      local there = position .. "|" .. place .. "|" .. direction(pinfo)
      waiting[there] = waiting[there] or {}
      table.insert(waiting[there], request)
    end
  elseif kind == "RESULT" and not packet.ahead then
    local to_group = (tonumber(destination:match("^%d+")) or 0) >= 224
    local place = to_group and "from " .. source or "to " .. destination
    for _, one in ipairs(waiting[position .. "|" .. place .. "|" .. direction(pinfo, true)] or {}) do
      if not to_group or packet.names(one.bit) then
        answer(fact, one, pinfo)
      end
    end
  end
  local token = kind:match("^LEAVE") and packet.source or packet.token
  if QUESTIONS[kind] then
    asked[key(kind, token, source, destination, direction(pinfo))] = request
  elseif ANSWERS[kind] and token ~= 0 or kind == "LEAVE_ACK" then
    local found = asked[key(ANSWERS[kind], token, destination, source, direction(pinfo, true))]
    if found then
      answer(fact, found, pinfo)
    end
  end
end

local function show_facts(tree, item, fact, packet, pinfo)
  local function generated(field, value)
    if value then
      return tree:add(field, value):set_generated()
    end
  end
  generated(f.stream, fact.stream)
  generated(f.message, fact.message)
  generated(f.response_in, fact.response_in)
  generated(f.response_to, fact.response_to)
  if fact.response_time then
    local seconds = math.floor(fact.response_time)
    generated(f.response_time, NSTime.new(seconds, math.floor((fact.response_time - seconds) * 1e9 + 0.5)))
  end
  if generated(f.duplicate_of, fact.duplicate_of) then
    item:add_proto_expert_info(x.duplicate)
  end
  if generated(f.retransmission_of, fact.retransmission_of) then
    item:add_proto_expert_info(x.retransmission)
  end
  if packet.kind == "CONTRIBUTION" and pinfo.visited and not fact.response_in and not fact.duplicate_of then
    item:add_proto_expert_info(x.missing_result)
  end
end

-- One packet ------------------------------------------------------------------------------------------------------------

local function is_ours(tvb, offset)
  return tvb:captured_len() - offset >= BTH_SIZE
    and value_of(tvb, offset, "BTH", "opcode") >= FIRST_OPCODE
    and value_of(tvb, offset, "BTH", "dqpn") == COLLECTIVE_QPN
end


local function bit_names(range)
  local named = {}
  for number = 0, 63 do
    if range:bitfield(63 - number, 1) == 1 then
      named[#named + 1] = number
    end
  end
  return #named == 0 and "" or " (bits " .. table.concat(named, ", ") .. ")"
end

-- Adds all fields of a header to a tree. Returns the items by the names of the fields.
local function add_header(tree, tvb, offset, header)
  local items = {}
  for _, row in ipairs(HEADERS[header]) do
    local range = tvb(offset + row.byte, row.bytes)
    items[row.name] = tree:add(row.field, range)
    if row.form == "bitmap" then
      items[row.name]:append_text(bit_names(range))
    end
  end
  return items
end

local function add_flags(item, range, flags)
  for _, flag in ipairs(flags) do
    item:add(flag.field, range)
  end
end

-- Body of a control packet. Returns the number of bytes that are known, or nil if it is too short.
local function add_body(tree, tvb, offset, length, kind)
  local header = HEADERS[kind]
  if not header or kind == "BTH" or kind == "CETH" or kind == "HOP" then
    return 0
  end
  if length < header.size then
    return nil
  end
  local branch = tree:add(fanin, tvb(offset, header.size), kind)
  local items = add_header(branch, tvb, offset, kind)
  if kind ~= "CONFIG" then
    return header.size
  end
  add_flags(items.flags, range_of(tvb, offset, "CONFIG", "flags"), CONFIG_FLAGS)
  local known = header.size
  for number = 1, value_of(tvb, offset, "CONFIG", "hops") do
    if length < known + HEADERS.HOP.size then
      return nil
    end
    local hop = tree:add(fanin, tvb(offset + known, HEADERS.HOP.size), "HOP " .. number)
    add_header(hop, tvb, offset + known, "HOP")
    known = known + HEADERS.HOP.size
  end
  return known
end

local function element(range, kind)
  if kind == "float" then
    return string.format("%.9g", range:le_float())
  end
  return tostring(range:len() == 8 and (kind == "int" and range:le_int64() or range:le_uint64())
    or (kind == "int" and range:le_int() or range:le_uint()))
end

local function add_data(tree, tvb, offset, length, dtype, wide)
  tree:add(f.data, tvb(offset, length))
  local row = wide and ELEMENTS[1] or ELEMENTS[dtype]
  if not row or row.kind == "other" or length % row.size ~= 0 then
    return
  end
  local count, texts = length / row.size, {}
  for index = 0, math.min(count, MAX_ELEMENTS) - 1 do
    texts[#texts + 1] = element(tvb(offset + index * row.size, row.size), row.kind)
  end
  local rest = count > MAX_ELEMENTS and " ..." or ""
  tree:add(f.elements, tvb(offset, length), table.concat(texts, " ") .. rest):set_generated()
end

local function add_icrc(tree, tvb, pinfo, ports, offset, size, segment_index)
  local place = tvb(offset + size - ICRC_SIZE, ICRC_SIZE)
  local item, status = tree:add(f.icrc, place), 2
  local wanted = fanin.prefs.check_icrc and icrc_of(tvb:raw(offset, size - ICRC_SIZE), pinfo, ports, segment_index)
  if wanted then
    status = tvb:raw(offset + size - ICRC_SIZE, ICRC_SIZE) == wanted and 1 or 0
  end
  tree:add(f.icrc_status, place, status):set_generated()
  if status == 0 then
    item:add_proto_expert_info(x.bad_icrc)
  end
  return status ~= 0
end

-- Checks that a device makes as well, and names that are not there. Returns whether a device would take the packet.
local function check(items, transport, packet)
  local taken = true
  local function refuse(item, info)
    item:add_proto_expert_info(info)
    taken = false
  end
  if not NAMES.opcode[packet.opcode] then refuse(transport.opcode, x.unknown_kind) end
  if packet.bth_version ~= 0 then refuse(transport.version, x.unknown_version) end
  if packet.version ~= WIRE_VERSION then refuse(items.version, x.unknown_version) end
  if packet.source > MAX_SOURCE then refuse(items.source, x.bad_source) end
  if packet.kind == "CONTRIBUTION" or packet.kind == "RESULT" then
    local class = math.floor(packet.flags / CLASS_UNIT) % (CLASS_MASK / CLASS_UNIT + 1)
    if not NAMES.class[class] or (class == 0 and packet.has_data) then refuse(items.flags, x.bad_class) end
    if not NAMES.op[packet.op] then refuse(items.op, x.unknown_op) end
    if not NAMES.dtype[packet.dtype] then refuse(items.dtype, x.unknown_dtype) end
    local known = NAMES.op[packet.op] and NAMES.dtype[packet.dtype]
    if known and class == 2 and packet.has_data and not (TAKES[packet.op] or {})[packet.dtype] then
      refuse(items.op, x.unsupported)
    end
  end
  if not NAMES.status[packet.status] then
    items.status:add_proto_expert_info(x.unknown_status)
  elseif packet.status > 1 then
    items.status:add_proto_expert_info(x.failure)
  end
  return taken
end

local PLACED = { CONTRIBUTION = true, RESULT = true, PROBE = true, NEED = true, WAIT = true }

local function read(tvb, offset)
  local packet = {}
  for _, name in ipairs({ "opcode", "padcount", "psn" }) do
    packet[name] = value_of(tvb, offset, "BTH", name)
  end
  packet.bth_version = value_of(tvb, offset, "BTH", "version")
  for _, row in ipairs(HEADERS.CETH) do
    if row.bits <= 32 then
      packet[row.name] = value_of(tvb, offset + BTH_SIZE, "CETH", row.name)
    end
  end
  packet.kind = NAMES.opcode[packet.opcode] or "unknown"
  packet.has_data = has_flag(packet.flags, "has_data")
  packet.wide = has_flag(packet.flags, "wide")
  packet.ahead = has_flag(packet.flags, "ahead")
  packet.has_place = PLACED[packet.kind]
  local nodes = range_of(tvb, offset + BTH_SIZE, "CETH", "node_bitmap")
  packet.names = function(number)
    return number <= MAX_SOURCE and nodes:bitfield(63 - number, 1) == 1
  end
  return packet
end

local function summary(packet)
  local text = packet.kind .. " jid=" .. packet.jid
  if packet.has_place then
    text = text .. " mid=" .. packet.mid .. " sid=" .. packet.sid
  end
  if packet.has_place or packet.kind == "ACK" then
    text = text .. " position=" .. packet.position
  end
  text = text .. " source=" .. packet.source
  if packet.has_data then
    local op, dtype = NAMES.op[packet.op] or packet.op, NAMES.dtype[packet.dtype] or packet.dtype
    text = text .. " " .. op .. " " .. dtype .. " length=" .. packet.length
  end
  return packet.status == 0 and text or text .. " status=" .. (NAMES.status[packet.status] or packet.status)
end

-- Size of the packet at `offset`: what its fields say, if another packet of ours follows there; else all that is left.
local function size_at(tvb, offset)
  local left = tvb:reported_len() - offset
  if tvb:captured_len() - offset >= TRANSPORT_SIZE then
    local packet = read(tvb, offset)
    local size = TRANSPORT_SIZE + packet.length + packet.padcount + ICRC_SIZE
    if size < left and is_ours(tvb, offset + size) then
      return size
    end
  end
  return left
end

-- Dissects the packet of `size` bytes at `offset`, the one at `place` in its super-packet. Returns its summary.
local function dissect(tvb, pinfo, ports, root, offset, size, place)
  local there = math.min(size, tvb:captured_len() - offset)
  local tree = root:add(fanin, tvb(offset, there))
  tree:add(f.kind, tvb(offset, 1))
  local transport = add_header(tree:add(fanin, tvb(offset, BTH_SIZE), "BTH"), tvb, offset, "BTH")
  if there < TRANSPORT_SIZE or size < TRANSPORT_SIZE + ICRC_SIZE then
    if size < TRANSPORT_SIZE + ICRC_SIZE then
      tree:add_proto_expert_info(x.short)
    end
    return (NAMES.opcode[tvb(offset, 1):uint()] or "unknown") .. " without all its headers"
  end
  local packet = read(tvb, offset)
  local items = add_header(tree, tvb, offset + BTH_SIZE, "CETH")
  local flags = range_of(tvb, offset + BTH_SIZE, "CETH", "flags")
  add_flags(items.flags, flags, FLAGS)
  items.flags:add(f.class, flags)
  local text = summary(packet)
  tree:append_text(", " .. text)
  local taken = check(items, transport, packet)
  if TRANSPORT_SIZE + packet.length + packet.padcount + ICRC_SIZE ~= size or -packet.length % 4 ~= packet.padcount then
    items.length:add_proto_expert_info(x.bad_length)
    return text
  end
  if there < size then
    return text -- the capture has cut it off
  end

  local behind = offset + TRANSPORT_SIZE
  if packet.kind == "CONTRIBUTION" or packet.kind == "RESULT" then
    if packet.length > 0 then
      add_data(tree, tvb, behind, packet.length, packet.dtype, packet.wide)
    end
    tree:add(f.route, packet.names(packet.source) and "tree" or "ring"):set_generated()
  else
    local known = add_body(tree, tvb, behind, packet.length, packet.kind)
    if not known then
      items.length:add_proto_expert_info(x.short_body)
    elseif known < packet.length then
      tree:add(f.body, tvb(behind + known, packet.length - known))
    end
  end
  local lost = range_of(tvb, offset + BTH_SIZE, "CETH", "rank_bitmap")(4, 4) -- the lower half is an IPv4 address
  local status = NAMES.status[packet.status]
  local names_device = (packet.kind == "ABORT" or packet.kind == "LEAVE") and (status == "PEER_LOST" or status == "PATH_MTU")
  if names_device and lost:uint() ~= 0 then
    tree:add(f.lost_device, lost):set_generated()
  end
  if packet.padcount > 0 then
    tree:add(f.padding, tvb(behind + packet.length, packet.padcount))
  end
  packet.icrc = tostring(tvb(offset + size - ICRC_SIZE, ICRC_SIZE):bytes())
  taken = add_icrc(tree, tvb, pinfo, ports, offset, size, packet.segment_index) and taken
  if not taken then
    return text -- a packet that is dropped changes nothing
  end

  local id = pinfo.number .. "." .. place
  if not pinfo.visited then
    facts[id] = {}
    relate(facts[id], packet, pinfo)
  end
  if facts[id] then
    show_facts(tree, tree, facts[id], packet, pinfo)
    if facts[id].duplicate_of then
      text = text .. " [duplicate]"
    elseif facts[id].retransmission_of then
      text = text .. " [retransmission]"
    end
  end
  return text
end

-- Lets Wireshark's own dissector show a packet. It says itself what is malformed; the error that it then raises as well
-- would look like one of this file. Returns the number of bytes that it took.
local function call_own(tvb, pinfo, tree)
  local fine, taken = pcall(function()
    return own:call(tvb, pinfo, tree)
  end)
  return fine and taken or 0
end

-- The packet of ours that a UD SEND carries (SPEC.md, section 17), without what is around it; nil if it carries none.
local function datagram_in(tvb)
  local start, behind = BTH_SIZE + DETH_SIZE, tvb:captured_len() - ICRC_SIZE
  if behind < start or tvb(0, 1):uint() ~= UD_SEND_ONLY or tvb(BTH_SIZE, 4):uint() ~= QUEUE_KEY then
    return nil
  end
  local size = behind - start - value_of(tvb, 0, "BTH", "padcount")
  if tvb:captured_len() < tvb:reported_len() or size < TRANSPORT_SIZE + ICRC_SIZE or not is_ours(tvb, start) then
    return nil
  end
  return tvb(start, size):tvb()
end

function fanin.dissector(tvb, pinfo, tree)
  if not is_ours(tvb, 0) then
    local inner = datagram_in(tvb)
    local taken = own and call_own(tvb, pinfo, tree) or 0
    if not inner then
      return taken
    end
    local lane = value_of(inner, BTH_SIZE, "CETH", "lane")
    local ports = { source = FIRST_SOURCE_PORT + lane, destination = UDP_PORT } -- as the ICRC has them
    local text = dissect(inner, pinfo, ports, tree, 0, inner:captured_len(), 0)
    pinfo.cols.protocol = "Fanin"
    pinfo.cols.info = text .. " in a datagram"
    return tvb:captured_len()
  end
  local ports = { source = pinfo.src_port, destination = pinfo.dst_port } -- Wireshark's own puts queue pairs there
  local first = size_at(tvb, 0)
  if own and first >= TRANSPORT_SIZE + ICRC_SIZE and first <= tvb:captured_len() then
    call_own(tvb(0, first):tvb(), pinfo, tree)
  end
  local offset, place, texts = 0, 0, {}
  while offset < tvb:reported_len() and (offset == 0 or is_ours(tvb, offset)) do
    local size = size_at(tvb, offset)
    texts[#texts + 1] = dissect(tvb, pinfo, ports, tree, offset, size, place)
    offset, place = offset + size, place + 1
  end
  pinfo.cols.protocol = "Fanin"
  pinfo.cols.info = texts[1] .. (#texts > 1 and " and " .. (#texts - 1) .. " more packets" or "")
  return tvb:captured_len()
end

DissectorTable.get("udp.port"):add(UDP_PORT, fanin)
