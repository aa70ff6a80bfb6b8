import com.anthropic.helpers.BetaMemoryToolHandler;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Runs the call of each line of standard input, and prints its result as a line. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var memories = new HashMap<List<String>, RetentiveMemory>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode sent = JSON.readTree(line);
            JsonNode input = sent.at("/block/input");
            var place = List.of(text(sent, "url"), text(sent, "key"), text(sent, "store"), text(sent, "timeout"));
            var memory = memories.computeIfAbsent(place, Driver::memory);
            Map<String, Object> printed;
            try {
                if (sent.path("by_sdk").asBoolean()) {
                    printed = Map.of("content", bySdk(memory, input));
                } else {
                    var result = memory.call(sent.at("/block/id").asText(), JSON.convertValue(input, Map.class));
                    printed = Map.of("content", result.content(), "is_error", result.isError());
                }
            } catch (IllegalStateException error) {
                printed = Map.of("failed", error.getMessage());
            }
            out.println(JSON.writeValueAsString(printed));
        }
    }

    private static RetentiveMemory memory(List<String> place) {
        var timeout = Duration.ofMillis((long) (Double.parseDouble(place.get(3)) * 1000));
        return new RetentiveMemory(place.get(0), place.get(1), place.get(2), timeout);
    }

    /** The call of the interface's method that the SDK's runner makes. */
    private static String bySdk(BetaMemoryToolHandler memory, JsonNode input) {
        String path = text(input, "path");
        return switch (text(input, "command")) {
            case "view" -> memory.view(path, range(input));
            case "create" -> memory.create(path, text(input, "file_text"));
            case "str_replace" -> memory.strReplace(path, text(input, "old_str"), text(input, "new_str"));
            case "insert" -> memory.insert(path, input.get("insert_line").asLong(), text(input, "insert_text"));
            case "delete" -> memory.delete(path);
            default -> memory.rename(text(input, "old_path"), text(input, "new_path"));
        };
    }

    private static Optional<List<Long>> range(JsonNode input) {
        return Optional.ofNullable(JSON.convertValue(input.get("view_range"), JSON.getTypeFactory().constructCollectionType(List.class, Long.class)));
    }

    private static String text(JsonNode from, String name) {
        return from.path(name).asText();
    }
}
