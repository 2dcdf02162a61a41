#include "kernels/gpu_plugin.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include <dlfcn.h>

#include "src/core/check.h"

namespace demi {
namespace {

namespace fs = std::filesystem;

/// Folders in which plugins are looked for, best first; the loader's own search comes last.
std::vector<fs::path> plugin_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("DEMI_PLUGIN_PATH")) {
    const std::string list = path;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib");
  }
  // Where a shared libdemi lies, its plugin lies too.
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&load_gpu_plugin), &self) != 0 && self.dli_fname) {
    folders.push_back(fs::path(self.dli_fname).parent_path());
  }
  folders.emplace_back(DEMI_INSTALL_LIBDIR);
  return folders;
}

void* open_library(const std::string& file, std::string& reason) {
  std::error_code error;
  for (const fs::path& folder : plugin_folders()) {
    const fs::path path = folder / file;
    if (!fs::exists(path, error)) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reason = std::string("the plugin cannot be loaded: ") + dlerror();
    return nullptr;
  }
  if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  reason = "the plugin " + file + " is not installed (demi was built without CUDA)";
  return nullptr;
}

struct Loaded {
  const GpuPlugin* plugin = nullptr;
  std::string reason;
};

Loaded load(const std::string& name) {
  const std::string file = "lib" + name + ".so";
  Loaded loaded;
  void* library = open_library(file, loaded.reason);
  if (library == nullptr) return loaded;
  using Entry = const GpuPlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "demi_gpu_plugin"));
  if (entry == nullptr) {
    loaded.reason = file + " is no plugin of demi: it has no symbol demi_gpu_plugin";
    return loaded;
  }
  const GpuPlugin* plugin = entry();
  if (plugin->version != kGpuPluginVersion) {
    loaded.reason = file + " is of another version of demi: expected plugin version " +
                    std::to_string(kGpuPluginVersion) +
                    ". Received: " + std::to_string(plugin->version);
    return loaded;
  }
  loaded.plugin = plugin;
  return loaded;
}

}  // namespace

const GpuPlugin* load_gpu_plugin(const std::string& name, std::string& reason) {
  static std::mutex mutex;
  static std::map<std::string, Loaded> plugins;
  const std::lock_guard lock(mutex);
  const auto found = plugins.find(name);
  const Loaded& loaded =
      found != plugins.end() ? found->second : plugins.emplace(name, load(name)).first->second;
  reason = loaded.reason;
  return loaded.plugin;
}

}  // namespace demi
