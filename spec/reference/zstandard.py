"""Zstandard decompression (RFC 8878) in plain Python. Pure: bytes in, bytes out. Sections cited are those of the RFC.

Written to be read, not to be fast. Dictionaries are not supported: the carton format has none.
"""

MAGIC = 0xFD2FB528
MAX_BLOCK = 128 * 1024


class ZstdError(Exception):
    """Bytes that are not Zstandard, or beyond a limit of the caller."""


class TooLarge(ZstdError):
    """A window or a content above the caller's limit."""


def decompress(data, max_size, max_window):
    """Decompresses all frames of `data`, to at most `max_size` bytes. Nothing may follow the last frame."""
    output = bytearray()
    offset = 0
    while offset < len(data):
        magic = _number(data, offset, 4)
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # §3.1.2: a skippable frame
            end = offset + 8 + _number(data, offset + 4, 4)
            if end > len(data):
                raise ZstdError("a skippable frame is cut off")
            offset = end
        elif magic == MAGIC:
            offset = _frame(data, offset + 4, output, max_size, max_window)
        else:
            raise ZstdError(f"no frame begins at byte {offset}")
    return bytes(output)


def _number(data, offset, size):
    if offset + size > len(data):
        raise ZstdError("the data is cut off")
    return int.from_bytes(data[offset : offset + size], "little")


def _frame(data, offset, output, max_size, max_window):
    """§3.1.1. Appends the frame's content to `output` and returns where the frame ends."""
    descriptor = _number(data, offset, 1)
    offset += 1
    if descriptor & 0x08:
        raise ZstdError("a reserved bit of the frame header is set")
    single_segment = bool(descriptor & 0x20)
    window = None
    if not single_segment:
        byte = _number(data, offset, 1)
        offset += 1
        base = 1 << (10 + (byte >> 3))
        window = base + base // 8 * (byte & 7)
    id_size = (0, 1, 2, 4)[descriptor & 3]
    if id_size and _number(data, offset, id_size) != 0:
        raise ZstdError("the frame needs a dictionary")
    offset += id_size
    size_size = (int(single_segment), 2, 4, 8)[descriptor >> 6]
    content_size = None
    if size_size:
        content_size = _number(data, offset, size_size) + (256 if size_size == 2 else 0)
        offset += size_size
    if window is None:
        window = content_size
    if window > max_window:
        raise TooLarge(f"the window has {window} bytes; at most {max_window} are allowed")
    begin = len(output)
    block = _Blocks(output, begin, window)
    last = False
    while not last:
        header = _number(data, offset, 3)
        offset += 3
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == 3 or size > min(MAX_BLOCK, max(window, 1024)):
            raise ZstdError("a block's header is not allowed")
        stored = 1 if kind == 1 else size
        content = data[offset : offset + stored]
        if len(content) < stored:
            raise ZstdError("a block is cut off")
        offset += stored
        before = len(output)
        if kind == 0:
            output += content
        elif kind == 1:
            output += content * size
        else:
            block.decompress(content)
        if len(output) - before > MAX_BLOCK:
            raise ZstdError("a block has more than 128 KiB")
        if len(output) > max_size:
            raise TooLarge(f"more than {max_size} bytes")
    if content_size is not None and len(output) - begin != content_size:
        raise ZstdError("the content has another size than the frame says")
    if descriptor & 4:
        if _number(data, offset, 4) != xxh64(bytes(output[begin:])) & 0xFFFFFFFF:
            raise ZstdError("the content has another checksum than the frame says")
        offset += 4
    return offset


class _BackwardBits:
    """§4.1: bits that are read from the end of the bytes to their start. What is before the start reads as zeros."""

    def __init__(self, data):
        if not data or data[-1] == 0:
            raise ZstdError("a bit stream has no end")
        self.data = data
        self.position = 8 * (len(data) - 1) + data[-1].bit_length() - 1

    def read(self, n_bits):
        self.position -= n_bits
        return self._bits(self.position, n_bits)

    def peek(self, n_bits):
        return self._bits(self.position - n_bits, n_bits)

    def _bits(self, begin, n_bits):
        if begin < 0:
            return self._bits(0, n_bits + begin) << -begin if n_bits + begin > 0 else 0
        chunk = int.from_bytes(self.data[begin >> 3 : (begin + n_bits + 7) >> 3], "little")
        return chunk >> (begin & 7) & ((1 << n_bits) - 1)


class _FiniteStates:
    """§4.1: the table of a finite state entropy decoder."""

    def __init__(self, log, probabilities):
        size = 1 << log
        self.log = log
        self.symbols = [0] * size
        high = size - 1
        for symbol, probability in enumerate(probabilities):
            if probability == -1:
                self.symbols[high] = symbol
                high -= 1
        step, position = (size >> 1) + (size >> 3) + 3, 0
        for symbol, probability in enumerate(probabilities):
            for _ in range(probability):
                self.symbols[position] = symbol
                position = (position + step) & (size - 1)
                while position > high:
                    position = (position + step) & (size - 1)
        if position != 0:
            raise ZstdError("a table of states does not add up")
        count = [abs(probability) for probability in probabilities]
        self.next = []
        for symbol in self.symbols:
            n_bits = log - (count[symbol].bit_length() - 1)
            self.next.append((n_bits, (count[symbol] << n_bits) - size))
            count[symbol] += 1

    @classmethod
    def of_one(cls, symbol):
        table = cls.__new__(cls)
        table.log, table.symbols, table.next = 0, [symbol], [(0, 0)]
        return table

    def update(self, state, bits):
        n_bits, base = self.next[state]
        return base + bits.read(n_bits)


def _read_table(data, offset, max_log, max_symbol):
    """§4.1.1. Returns the table that is described at `offset`, and where its description ends."""
    stream = int.from_bytes(data[offset : offset + 512], "little")
    available = 8 * len(data[offset : offset + 512])
    log = (stream & 15) + 5
    position = 4
    if log > max_log:
        raise ZstdError("a table of states is too large")
    remaining = 1 << log
    probabilities = []
    while remaining > 0:
        n_bits = (remaining + 1).bit_length()
        value = stream >> position & ((1 << n_bits) - 1)
        low = value & ((1 << (n_bits - 1)) - 1)
        threshold = (1 << n_bits) - 1 - (remaining + 1)
        if low < threshold:
            value = low
            position += n_bits - 1
        else:
            if value >= 1 << (n_bits - 1):
                value -= threshold
            position += n_bits
        probabilities.append(value - 1)
        remaining -= abs(value - 1)
        if value == 1:
            repeat = 3
            while repeat == 3:
                repeat = stream >> position & 3
                position += 2
                probabilities += [0] * repeat
        if position > available or len(probabilities) > max_symbol + 1:
            raise ZstdError("a table of states is malformed")
    if remaining < 0:
        raise ZstdError("a table of states is malformed")
    return _FiniteStates(log, probabilities), offset + (position + 7) // 8


class _Huffman:
    """§4.2: the table of a Huffman decoder."""

    def __init__(self, weights):
        total = sum(1 << (weight - 1) for weight in weights if weight)
        self.log = total.bit_length()
        missing = (1 << self.log) - total
        if total == 0 or self.log > 11 or missing & (missing - 1):
            raise ZstdError("a Huffman table does not add up")
        weights = weights + [missing.bit_length()]
        self.table = []
        for weight in range(1, self.log + 1):
            for symbol, its_weight in enumerate(weights):
                if its_weight == weight:
                    self.table += [(symbol, self.log + 1 - weight)] * (1 << (weight - 1))

    def decode(self, data, n_symbols):
        bits = _BackwardBits(data)
        output = bytearray()
        for _ in range(n_symbols):
            symbol, n_bits = self.table[bits.peek(self.log)]
            bits.position -= n_bits
            output.append(symbol)
        if bits.position != 0:
            raise ZstdError("a Huffman stream has another length than it says")
        return output


def _read_huffman(data):
    """§4.2.1. Returns the table that `data` begins with, and the size of its description."""
    header = _number(data, 0, 1)
    if header >= 128:
        n_weights = header - 127
        size = 1 + (n_weights + 1) // 2
        if size > len(data):
            raise ZstdError("a Huffman table is cut off")
        weights = [data[1 + n // 2] >> (0 if n % 2 else 4) & 15 for n in range(n_weights)]
        return _Huffman(weights), size
    content = data[1 : 1 + header]
    if len(content) < header:
        raise ZstdError("a Huffman table is cut off")
    table, begin = _read_table(content, 0, 6, 12)
    bits = _BackwardBits(content[begin:])
    states = [bits.read(table.log), bits.read(table.log)]
    weights, turn = [], 0
    while len(weights) < 255:
        weights.append(table.symbols[states[turn]])
        states[turn] = table.update(states[turn], bits)
        turn = 1 - turn
        if bits.position < 0:
            weights.append(table.symbols[states[turn]])
            return _Huffman(weights), 1 + header
    raise ZstdError("a Huffman table has too many weights")


def _codes(first, n_extra_bits):
    """The first value and the number of extra bits of each code, from the bits alone."""
    codes = []
    for n_bits in n_extra_bits:
        codes.append((first, n_bits))
        first += 1 << n_bits
    return codes


# §3.1.1.3.2.1.1: literal lengths and match lengths by their codes.
LITERAL_LENGTHS = _codes(0, [0] * 16 + [1] * 4 + [2] * 2 + [3] * 2 + [4] + list(range(6, 17)))
MATCH_LENGTHS = _codes(3, [0] * 32 + [1] * 4 + [2] * 2 + [3] * 2 + [4] * 2 + [5] + list(range(7, 17)))

# §3.1.1.3.2.2: the tables that need not be sent.
DEFAULT_LITERAL_LENGTHS = _FiniteStates(6, [4, 3] + [2] * 11 + [1] * 3 + [2] * 9 + [3, 2] + [1] * 5 + [-1] * 4)
DEFAULT_OFFSETS = _FiniteStates(5, [1] * 6 + [2] * 3 + [1] * 15 + [-1] * 5)
DEFAULT_MATCH_LENGTHS = _FiniteStates(6, [1, 4, 3] + [2] * 6 + [1] * 37 + [-1] * 7)


class _Blocks:
    """§3.1.1.3: the compressed blocks of a frame, with what one hands on to the next."""

    def __init__(self, output, begin, window):
        self.output, self.begin, self.window = output, begin, window
        self.huffman = None
        self.tables = [None, None, None]
        self.repeated_offsets = [1, 4, 8]

    def decompress(self, data):
        literals, offset = self._literals(data)
        n_sequences = _number(data, offset, 1)
        offset += 1
        if n_sequences >= 255:
            n_sequences = _number(data, offset, 2) + 0x7F00
            offset += 2
        elif n_sequences >= 128:
            n_sequences = (n_sequences - 128 << 8) + _number(data, offset, 1)
            offset += 1
        if n_sequences == 0:
            if offset != len(data):
                raise ZstdError("bytes follow a block without sequences")
            self.output += literals
            return
        modes = _number(data, offset, 1)
        offset += 1
        if modes & 3:
            raise ZstdError("reserved bits of the sequences are set")
        defaults = (DEFAULT_LITERAL_LENGTHS, DEFAULT_OFFSETS, DEFAULT_MATCH_LENGTHS)
        for n, (max_log, max_symbol) in enumerate(((9, 35), (8, 31), (9, 52))):
            mode = modes >> (6 - 2 * n) & 3
            if mode == 0:
                self.tables[n] = defaults[n]
            elif mode == 1:
                symbol = _number(data, offset, 1)
                if symbol > max_symbol:
                    raise ZstdError("a code is out of range")
                self.tables[n] = _FiniteStates.of_one(symbol)
                offset += 1
            elif mode == 2:
                self.tables[n], offset = _read_table(data, offset, max_log, max_symbol)
            elif self.tables[n] is None:
                raise ZstdError("there is no table to be repeated")
        self._sequences(literals, n_sequences, _BackwardBits(data[offset:]))

    def _literals(self, data):
        """§3.1.1.3.1. Returns the literals, and where their section ends."""
        first = _number(data, 0, 1)
        kind, form = first & 3, first >> 2 & 3
        if kind < 2:
            header = {0: 1, 2: 1, 1: 2, 3: 3}[form]
            size = _number(data, 0, header) >> (3 if header == 1 else 4)
            if size > MAX_BLOCK:
                raise ZstdError("there are too many literals")
            stored = size if kind == 0 else 1
            content = data[header : header + stored]
            if len(content) < stored:
                raise ZstdError("the literals are cut off")
            return content * (size if kind == 1 else 1), header + stored
        header, n_bits = {0: (3, 10), 1: (3, 10), 2: (4, 14), 3: (5, 18)}[form]
        fields = _number(data, 0, header) >> 4
        size, stored = fields & ((1 << n_bits) - 1), fields >> n_bits
        content = data[header : header + stored]
        if len(content) < stored or size > MAX_BLOCK:
            raise ZstdError("the literals are cut off, or too many")
        if kind == 2:
            self.huffman, n_bytes = _read_huffman(content)
            content = content[n_bytes:]
        elif self.huffman is None:
            raise ZstdError("there is no Huffman table to be repeated")
        if form == 0:
            return self.huffman.decode(content, size), header + stored
        part, begin = (size + 3) // 4, 6
        ends = [_number(content, 0, 2), _number(content, 2, 2), _number(content, 4, 2)]
        sizes = [part, part, part, size - 3 * part]
        if sizes[3] < 0 or begin + sum(ends) > len(content):
            raise ZstdError("the literals are malformed")
        literals = bytearray()
        for n_symbols, length in zip(sizes, ends + [len(content) - begin - sum(ends)]):
            literals += self.huffman.decode(content[begin : begin + length], n_symbols)
            begin += length
        return literals, header + stored

    def _sequences(self, literals, n_sequences, bits):
        """§3.1.1.4: literals, and copies of what is there already."""
        literal_table, offset_table, match_table = self.tables
        literal_state = bits.read(literal_table.log)
        offset_state = bits.read(offset_table.log)
        match_state = bits.read(match_table.log)
        position = 0
        limit = len(self.output) + MAX_BLOCK
        for n in range(n_sequences):
            code = offset_table.symbols[offset_state]
            offset_value = (1 << code) + bits.read(code)
            first, n_bits = MATCH_LENGTHS[match_table.symbols[match_state]]
            match_length = first + bits.read(n_bits)
            first, n_bits = LITERAL_LENGTHS[literal_table.symbols[literal_state]]
            literal_length = first + bits.read(n_bits)
            if n + 1 < n_sequences:
                literal_state = literal_table.update(literal_state, bits)
                match_state = match_table.update(match_state, bits)
                offset_state = offset_table.update(offset_state, bits)
            if bits.position < 0 or position + literal_length > len(literals):
                raise ZstdError("the sequences are malformed")
            self.output += literals[position : position + literal_length]
            position += literal_length
            self._copy(self._offset(offset_value, literal_length), match_length, limit)
        if bits.position != 0:
            raise ZstdError("the sequences have another length than they say")
        self.output += literals[position:]

    def _offset(self, value, literal_length):
        """§3.1.1.5: an offset, or one of the last three."""
        recent = self.repeated_offsets
        if value > 3:
            offset = value - 3
            recent[:] = [offset, recent[0], recent[1]]
            return offset
        index = value - 1 + (literal_length == 0)
        offset = recent[0] - 1 if index == 3 else recent[index]
        if offset == 0:
            raise ZstdError("an offset is 0")
        if index > 0:
            del recent[min(index, 2)]
            recent.insert(0, offset)
        return offset

    def _copy(self, offset, length, limit):
        begin = len(self.output) - offset
        if begin < self.begin or offset > max(self.window, 1024) or len(self.output) + length > limit:
            raise ZstdError("a copy from outside the window, or a block of more than 128 KiB")
        while length > 0:
            piece = self.output[begin : begin + min(length, offset)]
            self.output += piece
            begin += len(piece)
            length -= len(piece)


def xxh64(data):
    """The checksum of a frame's content, with seed 0 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""
    primes = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
    mask = (1 << 64) - 1

    def rotate(value, n):
        return (value << n | value >> (64 - n)) & mask

    def lane(accumulator, value):
        return rotate((accumulator + value * primes[1]) & mask, 31) * primes[0] & mask

    offset = 0
    if len(data) >= 32:
        lanes = [(primes[0] + primes[1]) & mask, primes[1], 0, -primes[0] & mask]
        while offset + 32 <= len(data):
            for n in range(4):
                lanes[n] = lane(lanes[n], int.from_bytes(data[offset + 8 * n : offset + 8 * n + 8], "little"))
            offset += 32
        result = sum(rotate(value, n) for value, n in zip(lanes, (1, 7, 12, 18))) & mask
        for value in lanes:
            result = ((result ^ lane(0, value)) * primes[0] + primes[3]) & mask
    else:
        result = primes[4]
    result = (result + len(data)) & mask
    while offset + 8 <= len(data):
        result ^= lane(0, int.from_bytes(data[offset : offset + 8], "little"))
        result = (rotate(result, 27) * primes[0] + primes[3]) & mask
        offset += 8
    if offset + 4 <= len(data):
        result ^= int.from_bytes(data[offset : offset + 4], "little") * primes[0] & mask
        result = (rotate(result, 23) * primes[1] + primes[2]) & mask
        offset += 4
    for byte in data[offset:]:
        result ^= byte * primes[4] & mask
        result = rotate(result, 11) * primes[0] & mask
    result = (result ^ result >> 33) * primes[1] & mask
    result = (result ^ result >> 29) * primes[2] & mask
    return result ^ result >> 32
